package web

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"
	"slices"
)

// Document is a page of one file, with its style and script inside and nothing
// from elsewhere, so that its policy can name their digests and forbid the
// rest (Content Security Policy level 3).
type Document struct {
	body   []byte
	policy string
}

//go:embed page/proof.js
var proofScript []byte

// WithProof puts before a page's script what pages share that ask for a fresh
// proof: call, which sends a request, and fresh, which does an action again
// after a passkey or the password was asked for. The page has a dialog with the
// id password-dialog and a form password-again with the input password in it.
func WithProof(script []byte) []byte { return slices.Concat(proofScript, script) }

// NewDocument puts the style and the script where html says /*style*/ and
// /*script*/. The page may talk to this server alone.
func NewDocument(html, style, script []byte) *Document {
	body := bytes.Replace(html, []byte("/*style*/"), style, 1)
	return &Document{
		body: bytes.Replace(body, []byte("/*script*/"), script, 1),
		policy: "default-src 'none'; connect-src 'self'; script-src " + digest(script) + "; style-src " + digest(style) +
			"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
	}
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Serve answers with the page.
func (d *Document) Serve(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", d.policy)
	_, err := w.Write(d.body)
	return err
}
