package app

import (
	"bytes"
	"context"
	stdlog "log"
	"log/slog"
)

// libraryLog takes what libraries print with package log. The trace of HTTP/2,
// which GODEBUG=http2debug=1 switches on, is dropped: its lines hold headers and
// bodies, thus passwords, tokens and keys (threats.md section 1, CertWarden
// backend#140).
type libraryLog struct{ log *slog.Logger }

// Write implements io.Writer.
func (l libraryLog) Write(line []byte) (int, error) {
	if !bytes.Contains(line, []byte("http2: ")) {
		l.log.LogAttrs(context.Background(), slog.LevelDebug, string(bytes.TrimSpace(line)))
	}
	return len(line), nil
}

// errorLog is for http.Server: TLS scanners, closed connections.
func errorLog(log *slog.Logger) *stdlog.Logger { return stdlog.New(libraryLog{log}, "", 0) }

// captureLibraryLog sends the process's standard logger the same way.
func captureLibraryLog(log *slog.Logger) {
	stdlog.SetFlags(0)
	stdlog.SetOutput(libraryLog{log})
}
