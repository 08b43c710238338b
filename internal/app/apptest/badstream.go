package apptest

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// Stream sends a request as it is. leave closes our side of the connection
// afterwards, which the server takes for a caller who went away.
func (w *World) Stream(t *testing.T, who *Caller, line, headers, body string, leave bool) *Answer {
	t.Helper()
	conn, err := net.Dial("tcp", w.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var own strings.Builder
	if err := who.Header.Write(&own); err != nil {
		t.Fatal(err)
	}
	go func() { // the server may answer before it has read everything
		_, _ = io.WriteString(conn, line+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"+own.String()+headers+"\r\n"+body)
		if leave {
			_ = conn.(*net.TCPConn).CloseWrite()
		}
	}()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%s %s: %v", line, headers, err)
	}
	defer response.Body.Close()
	received, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return &Answer{response.StatusCode, response.Header, received}
}
