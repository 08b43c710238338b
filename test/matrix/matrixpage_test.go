package matrix_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"certharbor.dev/certharbor/internal/app/apptest"
)

// page is the matrix as it was observed, as docs/access-matrix.md.
func (m *matrix) page() string {
	var b strings.Builder
	b.WriteString(`# Who may do what

Made by ` + "`go test ./internal/app -run TestAccessMatrix -update`" + `, which sends every cell to a
running server on both databases, and diffed by the same test without
` + "`-update`" + `. What each cell must be is worked out beforehand from the route line and
the rules of the specification (internal/app/matrixrules_test.go), and the route
lines from the specification's words (matrixlines_test.go): nothing here is only
what the program happens to do.

A cell is the HTTP status and, for a failure, the code of the error. **401/5018**:
no valid credential, or not of a kind that the route takes. **403/5022**: known,
but not permitted. **404/5003**: not there, or not the caller's; the answers to
both are equal byte by byte (TestForeignIsLikeAbsent). **–**: the credential says
nothing about the route. A refused request changed nothing.

` + "`U`" + ` is ` + "`/apiv1/users/{user_id}`" + `. Every route of U was also tried as
` + "`/apiv1/me/…`" + `, with the same answer unless the cell says otherwise after "me".
Requests are good ones. Where an admitted one is not answered with success, the
last table says why.

## Credentials

| column | is |
|---|---|
`)
	for _, c := range m.columns {
		fmt.Fprintf(&b, "| %s | %s |\n", c.name, c.meaning)
	}
	areas := map[string][]*apptest.Operation{}
	for _, o := range m.Operations {
		areas[areaOf(o)] = append(areas[areaOf(o)], o)
	}
	for _, area := range slices.Sorted(maps.Keys(areas)) {
		b.WriteString("\n## " + area + "\n\n| route | takes |")
		for _, c := range m.columns {
			b.WriteString(" " + c.name + " |")
		}
		b.WriteString("\n|---|---|" + strings.Repeat("---|", len(m.columns)) + "\n")
		slices.SortFunc(areas[area], func(a, b *apptest.Operation) int {
			return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Method, b.Method))
		})
		for _, o := range areas[area] {
			fmt.Fprintf(&b, "| %s | %s |", o.Line(), strings.ReplaceAll(o.Rule.String(), " | ", ", "))
			for _, s := range m.seen[o.Line()] {
				b.WriteString(" " + s.String() + " |")
			}
			b.WriteByte('\n')
		}
	}
	b.WriteString("\n## Good requests that the world of the test answers otherwise\n\n| route | by | answer | because |\n|---|---|---|---|\n")
	for _, line := range slices.Sorted(maps.Keys(outcomes)) {
		route, by, one := strings.Cut(line, " by ")
		if !one {
			by = "all"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", route, by, outcomes[line].cell, outcomes[line].why)
	}
	return b.String()
}

func (s observation) String() string {
	if s.me != unasked && s.me != s.own {
		return s.own.String() + ", me " + s.me.String()
	}
	return s.own.String()
}

// areaOf is the first word of the path that says something.
func areaOf(o *apptest.Operation) string {
	rest, ofUser := strings.CutPrefix(o.Path, apptest.OwnPath+"/")
	if !ofUser {
		rest = strings.TrimPrefix(strings.TrimPrefix(o.Path, "/apiv1"), "/")
	}
	words := strings.Split(rest, "/")
	switch {
	case strings.HasPrefix(rest, "devices/self"):
		return "devices, themselves"
	case words[0] == "auth":
		return "auth"
	case words[0] == "admin":
		return "administrators"
	case ofUser:
		return words[0]
	}
	return "public"
}
