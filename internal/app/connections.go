package app

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"certharbor.dev/certharbor/internal/ratelimit"
)

const (
	// defaultConnections is what --max-connections is when nothing is said:
	// each holds some 20 KiB.
	defaultConnections = 4096
	// strangersConnections is how many of them one address (an IPv6 /64) has
	// that have not shown a credential yet.
	strangersConnections = 512
)

// connections bounds how many connections all listeners together have. When
// there are too many, one is closed for the new one: a stranger's that waits for
// a next request, longest first; one of the address with most strangers, if it
// has more than the new one's; one that has shown a credential and waits. Where
// there is none of these, the new one is closed.
type connections struct {
	most, ofStranger int
	proxies          []netip.Prefix // whose connections are many people's

	mu        sync.Mutex
	admitted  int64
	open      map[net.Conn]*connection
	strangers map[string]int // by address
	idle      [2]*list.List  // of strangers, of others
}

type connection struct {
	of      *connections
	conn    net.Conn
	address string
	number  int64         // in the order of their coming
	known   atomic.Bool   // it has shown a credential, or is gone
	resting *list.Element // in idle
}

func newConnections(most, ofStranger int) *connections {
	return &connections{most: most, ofStranger: ofStranger, open: map[net.Conn]*connection{}, strangers: map[string]int{}, idle: [2]*list.List{list.New(), list.New()}}
}

// bounded is a listener whose connections count.
type bounded struct {
	net.Listener

	all *connections
}

// Accept implements net.Listener.
func (b bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if b.all.admit(conn) {
			return conn, nil
		}
		_ = conn.Close()
	}
}

func (c *connections) admit(conn net.Conn) bool {
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		host = ""
	}
	address := ratelimit.AddressKey(host)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.strangers[address] >= c.ofStranger || len(c.open) >= c.most && !c.closeOne(c.strangers[address]+1) {
		return false
	}
	c.admitted++
	admitted := &connection{of: c, conn: conn, address: address, number: c.admitted}
	c.open[conn] = admitted
	c.strangers[address]++
	if addr, err := netip.ParseAddr(host); err == nil && slices.ContainsFunc(c.proxies, func(p netip.Prefix) bool { return p.Contains(addr.Unmap()) }) {
		admitted.left()
	}
	return true
}

// closeOne makes place for a connection of an address that then has so many of
// strangers.
func (c *connections) closeOne(strangers int) bool {
	victim := first(c.idle[0])
	if victim == nil {
		victim = c.ofLargest(strangers)
	}
	if victim == nil {
		victim = first(c.idle[1])
	}
	if victim == nil {
		return false
	}
	_ = victim.conn.Close()
	c.drop(victim)
	return true
}

func first(resting *list.List) *connection {
	if front := resting.Front(); front != nil {
		return front.Value.(*connection)
	}
	return nil
}

// ofLargest is the oldest connection without a credential of the address that
// has most of them, and more than that: a few who begin and never end must not
// keep out all others.
func (c *connections) ofLargest(than int) (oldest *connection) {
	largest := ""
	for address, n := range c.strangers {
		if n > than {
			largest, than = address, n
		}
	}
	for _, conn := range c.open {
		if conn.address == largest && !conn.known.Load() && (oldest == nil || conn.number < oldest.number) {
			oldest = conn
		}
	}
	return oldest
}

// drop forgets a connection; doing it twice does no harm.
func (c *connections) drop(conn *connection) {
	if c.open[conn.conn] != conn {
		return
	}
	delete(c.open, conn.conn)
	conn.wake()
	conn.left()
}

// left takes a connection from those of strangers.
func (conn *connection) left() {
	if conn.known.Swap(true) {
		return
	}
	if conn.of.strangers[conn.address]--; conn.of.strangers[conn.address] == 0 {
		delete(conn.of.strangers, conn.address)
	}
}

func (conn *connection) wake() {
	if conn.resting != nil {
		conn.of.idle[0].Remove(conn.resting) // does nothing in the list that it is not in
		conn.of.idle[1].Remove(conn.resting)
		conn.resting = nil
	}
}

func (conn *connection) rest() {
	conn.wake()
	which := 0
	if conn.known.Load() {
		which = 1
	}
	conn.resting = conn.of.idle[which].PushBack(conn)
}

// state is http.Server's ConnState.
func (c *connections) state(conn net.Conn, s http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.open[plain(conn)]
	if known == nil {
		return
	}
	switch s {
	case http.StateIdle:
		known.rest()
	case http.StateNew, http.StateActive:
		known.wake()
	case http.StateClosed, http.StateHijacked:
		c.drop(known)
	}
}

// plain is what a TLS connection goes over.
func plain(conn net.Conn) net.Conn {
	if over, ok := conn.(*tls.Conn); ok {
		return over.NetConn()
	}
	return conn
}

type connectionKey struct{}

// context is http.Server's ConnContext.
func (c *connections) context(ctx context.Context, conn net.Conn) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.open[plain(conn)]; known != nil {
		return context.WithValue(ctx, connectionKey{}, known)
	}
	return ctx
}

// showed notes that a credential came over the connection of a request.
func showed(ctx context.Context) {
	conn, ok := ctx.Value(connectionKey{}).(*connection)
	if !ok || conn.known.Load() {
		return
	}
	conn.of.mu.Lock()
	defer conn.of.mu.Unlock()
	if conn.of.open[conn.conn] == conn {
		conn.left()
	}
}
