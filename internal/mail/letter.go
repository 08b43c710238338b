package mail

import (
	"bytes"
	"fmt"
	"html/template"
	"strings"
)

// Letter is what a message says, from which both parts are made.
type Letter struct {
	Subject    string
	Paragraphs []string
	Code       string // shown large after the first paragraph; "": none
}

// body is what is kept, sealed.
type body struct {
	Subject string `json:"subject"`
	Text    string `json:"text"`
	HTML    string `json:"html"`
}

func (l Letter) render() (body, error) {
	var html bytes.Buffer
	if err := letterHTML.Execute(&html, l); err != nil {
		return body{}, fmt.Errorf("render a letter: %w", err)
	}
	var text strings.Builder
	for i, paragraph := range l.Paragraphs {
		text.WriteString(paragraph + "\n\n")
		if i == 0 && l.Code != "" {
			text.WriteString("    " + l.Code + "\n\n")
		}
	}
	text.WriteString("-- \n" + signature + "\n")
	return body{Subject: l.Subject, Text: text.String(), HTML: html.String()}, nil
}

const signature = "CertHarbor"

var letterHTML = template.Must(template.New("letter").Parse(`<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>{{.Subject}}</title></head>
<body style="font-family: sans-serif; max-width: 36em">
{{$code := .Code}}{{range $i, $paragraph := .Paragraphs}}<p>{{$paragraph}}</p>
{{if and (eq $i 0) $code}}<p style="font-size: 2em; letter-spacing: 0.2em"><strong>{{$code}}</strong></p>
{{end}}{{end}}<p>` + signature + `</p>
</body>
</html>
`))
