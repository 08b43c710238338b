package app

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"testing"
)

// from is a connection with the address of its other end.
type from struct {
	net.Conn

	address string
	closed  bool
}

func (f *from) RemoteAddr() net.Addr { return text(f.address) }
func (f *from) Close() error         { f.closed = true; return nil }

type text string

func (text) Network() string  { return "tcp" }
func (t text) String() string { return string(t) }

// One address has its share of the connections that showed no credential, and
// all have the number that is set: the one that rested longest goes first, those
// of strangers before those of others; one that is at work stays, unless its
// address has more than that of the new one.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	all := newConnections(10, 4)
	open := func(address string) *from {
		conn := &from{address: address}
		if !all.admit(conn) {
			return nil
		}
		all.state(conn, http.StateNew)
		return conn
	}
	var known []*from
	for i := range 4 {
		conn := open(fmt.Sprintf("192.0.2.1:%d", i))
		showed(all.context(context.Background(), conn))
		showed(all.context(context.Background(), conn)) // a second request
		known = append(known, conn)
	}
	var strangers []*from
	for i := range 4 {
		strangers = append(strangers, open(fmt.Sprintf("[2001:db8::%d]:1", i)))
	}
	if open("[2001:db8::9]:1") != nil {
		t.Error("a /64 has more than its share")
	}
	first, second := open("192.0.2.1:8"), open("192.0.2.9:1")
	if first == nil || second == nil {
		t.Fatal("fewer than the bound")
	}
	all.state(known[0], http.StateIdle)
	all.state(strangers[1], http.StateIdle)
	all.state(strangers[0], http.StateIdle)
	all.state(strangers[2], http.StateIdle)
	all.state(strangers[2], http.StateActive)
	for i, goes := range []*from{strangers[1], strangers[0], strangers[2], known[0]} { // the third is of those who have two
		conn := open(fmt.Sprintf("198.51.100.%d:1", i))
		if conn == nil || !goes.closed {
			t.Errorf("the %dth: admitted %v, the one that goes is closed: %v", i, conn != nil, goes.closed)
		}
		all.state(goes, http.StateClosed) // as the server notices later
		if len(all.open) != 10 {
			t.Errorf("%d are open", len(all.open))
		}
	}
	if open("198.51.100.9:1") != nil {
		t.Error("one that is at work went")
	}
	proxied := newConnections(10, 4)
	proxied.proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for i := range 10 {
		if !proxied.admit(&from{address: fmt.Sprintf("10.0.0.1:%d", i+1)}) {
			t.Errorf("a proxy has %d connections", i)
		}
	}
	for _, conn := range append(known, append(strangers, first, second)...) {
		all.state(conn, http.StateClosed)
	}
	if len(all.open) != 4 || len(all.strangers) != 4 || all.idle[0].Len()+all.idle[1].Len() != 0 {
		t.Errorf("left over: %d connections, strangers %v", len(all.open), all.strangers)
	}
}
