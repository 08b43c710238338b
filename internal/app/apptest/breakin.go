package apptest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Raw sends a request as it is written and returns the status and the body.
func (p *Program) Raw(method, target string, header http.Header) (int, string) {
	p.T.Helper()
	conn, err := net.DialTimeout("tcp", p.Listener.Addr().String(), 5*time.Second)
	if err != nil {
		p.T.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n", method, target, p.Listener.Addr())
	_ = header.Write(conn)
	_, _ = io.WriteString(conn, "\r\n")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		p.T.Fatalf("%s: %v", target, err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}
