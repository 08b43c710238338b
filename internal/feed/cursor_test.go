package feed

import (
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/fault"
)

func TestRequestedCursor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		header, query string
		want          string // "": refused; "unknown": of no stream
	}{
		{"", "", "0-0"},
		{"", "0-0", "0-0"},
		{"", "5-7", "5-7"},
		{"5-7", "", "5-7"},
		{`"5-7"`, "", "5-7"},
		{`W/"5-7"`, "", "5-7"},
		{` "5-7" `, "", "5-7"},
		{`"5-7"`, "9-9", "5-7"},
		{`"5-7"`, "garbage", "5-7"},
		{`"garbage"`, "5-7", "unknown"},
		{`*`, "", "unknown"},
		{`"5-7", "6-8"`, "", "unknown"},
		{`"5-7`, "", "unknown"},
		{`""`, "", "unknown"},
		{"", "5", "unknown"},
		{"", "5-", "unknown"},
		{"", "-5", "unknown"},
		{"", "-5-7", "unknown"},
		{"", "5--7", "unknown"},
		{"", "+5-7", "unknown"},
		{"", "05-7", "unknown"},
		{"", "5-7-1", "unknown"},
		{"", "5-٧", ""},
		{"", "5.0-7", "unknown"},
		{"", "9223372036854775807-9223372036854775807", "9223372036854775807-9223372036854775807"},
		{"", "9223372036854775808-1", "unknown"},
		{"", "01JF3Z8Q", "unknown"},
		{"", strings.Repeat("x", 64), "unknown"},
		{"", strings.Repeat("x", 65), ""},
		{"", strings.Repeat("1", 1<<20) + "-1", ""},
		{"", "5-7\x00", ""},
		{"", "5\n7", ""},
	} {
		got, err := requested(c.header, c.query)
		switch {
		case c.want == "" && !fault.Is(err, fault.CodeInvalid):
			t.Errorf("%q %.40q: got %v, %v; want 5000", c.header, c.query, got, err)
		case c.want == "unknown" && (err != nil || !got.foreign()):
			t.Errorf("%q %.40q: got %v, %v; want one of no stream", c.header, c.query, got, err)
		case c.want != "" && c.want != "unknown" && (err != nil || got.String() != c.want):
			t.Errorf("%q %.40q: got %v, %v; want %s", c.header, c.query, got, err, c.want)
		}
	}
}

func FuzzRequestedCursor(f *testing.F) {
	f.Add("", "1700000000000-12")
	f.Add(`W/"0-0"`, "")
	f.Add(`"9223372036854775807-1"`, "x")
	f.Add("", "-1--1")
	f.Fuzz(func(t *testing.T, header, query string) {
		c, err := requested(header, query)
		if err != nil {
			if !fault.Is(err, fault.CodeInvalid) {
				t.Fatalf("not a 5000: %v", err)
			}
			return
		}
		if c.foreign() {
			return
		}
		if c.MS < 0 || c.Seq < 0 {
			t.Fatalf("negative cursor %v", c)
		}
		if again, err := ParseCursor(c.String()); err != nil || again != c {
			t.Fatalf("%v does not survive its own text: %v, %v", c, again, err)
		}
	})
}
