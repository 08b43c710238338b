package apptest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
)

// Imported is a certificate with its key, without a CA.
func (c *Caller) Imported() int64 {
	c.P.T.Helper()
	certPEM, keyPEM, _ := Importable(c.P.T)
	var made Record
	c.Do("POST", "/apiv1/me/certificates", map[string]any{"action": "import", "cert_pem": certPEM, "private_key_pem": keyPEM}, 201).Data(c.P.T, &made)
	return made.ID
}

// Assigned are the certificates of the device.
func (c *Caller) Assigned(d *Device) (ids []int64) {
	c.P.T.Helper()
	var list []Record
	c.Do("GET", fmt.Sprintf("/apiv1/me/devices/%d/certificates", d.ID), nil, 200).Data(c.P.T, &list)
	for _, r := range list {
		ids = append(ids, r.ID)
	}
	return ids
}

// InFlight sends the head of a request and returns when the server has let it
// in and waits for its body; finish sends the body and gives the answer.
func (k *APIKey) InFlight(t *testing.T, path string, body any) (finish func() (status int, text string)) {
	t.Helper()
	encoded, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", k.P.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n",
		path, k.Token, len(encoded))
	reader := bufio.NewReader(conn)
	interim, err := http.ReadResponse(reader, nil) // comes when the handler reads: after the key was accepted
	if err != nil || interim.StatusCode != http.StatusContinue {
		t.Fatalf("%v %v, want 100", interim, err)
	}
	return func() (int, string) {
		if _, err := conn.Write(encoded); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var text strings.Builder
		if _, err := bufio.NewReader(response.Body).WriteTo(&text); err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, text.String()
	}
}

func (p *Program) Execute(query string, args ...any) {
	p.T.Helper()
	if _, err := p.Database().Writer().ExecContext(p.T.Context(), query, args...); err != nil {
		p.T.Fatal(err)
	}
}
