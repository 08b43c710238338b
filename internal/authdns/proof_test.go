package authdns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"certharbor.dev/certharbor/internal/outbound"
)

// zoneServer answers for example.com in one of several ways.
type zoneServer struct {
	texts map[string][]string // TXT values by name
	cname map[string]string
	rcode int
	lame  bool // answers without authority
	mute  bool // does not answer
	large bool // fits into TCP alone
	wild  []string
}

const (
	zoneName = "example.com."
	record   = "_certharbor.www.example.com."
	value    = "the-token"
)

// ServeDNS implements dns.Handler.
func (z *zoneServer) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	if z.mute {
		return
	}
	m := new(dns.Msg).SetReply(q)
	m.Authoritative, m.Rcode = !z.lame, z.rcode
	name := strings.ToLower(q.Question[0].Name)
	values, known := z.texts[name]
	if !known {
		values = z.wild
	}
	if to, ok := z.cname[name]; ok {
		m.Answer = append(m.Answer, &dns.CNAME{Hdr: header(name, dns.TypeCNAME), Target: to}, &dns.TXT{Hdr: header(to, dns.TypeTXT), Txt: []string{value}})
	}
	for _, v := range values {
		m.Answer = append(m.Answer, &dns.TXT{Hdr: header(name, dns.TypeTXT), Txt: []string{v}})
	}
	if len(m.Answer) == 0 && z.rcode == 0 {
		m.Rcode = dns.RcodeNameError
	}
	if _, udp := w.RemoteAddr().(*net.UDPAddr); z.large && udp {
		m.Truncated, m.Answer = true, nil
	}
	_ = w.WriteMsg(m)
}

func header(name string, kind uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: 1}
}

// resolver knows the zone and where its servers are.
type resolver struct{ addresses map[string][]string } // of servers

// ServeDNS implements dns.Handler.
func (r resolver) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	m := new(dns.Msg).SetReply(q)
	name := strings.ToLower(q.Question[0].Name)
	soa := &dns.SOA{Hdr: header(zoneName, dns.TypeSOA), Ns: "ns1.example.com.", Mbox: "x.example.com."}
	switch q.Question[0].Qtype {
	case dns.TypeSOA:
		m.Ns = append(m.Ns, soa)
	case dns.TypeNS:
		for host := range r.addresses {
			m.Answer = append(m.Answer, &dns.NS{Hdr: header(name, dns.TypeNS), Ns: host})
		}
	case dns.TypeA:
		for _, address := range r.addresses[name] {
			m.Answer = append(m.Answer, &dns.A{Hdr: header(name, dns.TypeA), A: net.ParseIP(address)})
		}
	}
	_ = w.WriteMsg(m)
}

// serve listens on the address by UDP and TCP until the test ends.
func serve(t *testing.T, address string, h dns.Handler) {
	t.Helper()
	packets, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", address)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*dns.Server{{PacketConn: packets, Handler: h}, {Listener: stream, Handler: h}} {
		go func() { _ = s.ActivateAndServe() }()
		t.Cleanup(func() { _ = s.Shutdown() })
	}
}

// network is a resolver and the zone's servers, each on an address of loopback
// of its own and all on one port.
func network(t *testing.T, servers ...*zoneServer) *Client {
	t.Helper()
	r := resolver{addresses: map[string][]string{}}
	port := freePort(t, len(servers)+1)
	for k, z := range servers {
		host := fmt.Sprintf("ns%d.example.com.", k+1)
		address := fmt.Sprintf("127.0.9.%d", k+2)
		r.addresses[host] = []string{address}
		serve(t, fmt.Sprintf("%s:%d", address, port), z)
	}
	own := netip.MustParseAddr("127.0.9.1")
	serve(t, netip.AddrPortFrom(own, port).String(), r)
	return New(Options{
		Resolvers: []netip.AddrPort{netip.AddrPortFrom(own, port)}, AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.9.0/24")},
		Port: port, Timeout: 300 * time.Millisecond,
	})
}

// freePort finds one that is free by UDP and TCP at all of the addresses.
func freePort(t *testing.T, addresses int) uint16 {
	t.Helper()
	for range 50 {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.9.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := uint16(l.Addr().(*net.TCPAddr).Port) //nolint:gosec // a port
		_ = l.Close()
		free := true
		for k := range addresses {
			p, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", fmt.Sprintf("127.0.9.%d:%d", k+1, port))
			if err != nil {
				free = false
				break
			}
			_ = p.Close()
		}
		if free {
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

func good() *zoneServer { return &zoneServer{texts: map[string][]string{record: {"other", value}}} }

func bare() *zoneServer { return &zoneServer{} }

func TestProof(t *testing.T) { //nolint:paralleltest // its servers need one port at several addresses
	for _, tt := range []struct {
		what    string
		servers []*zoneServer
		stands  bool
		why     string // or
		unknown string
	}{
		{"all show it", []*zoneServer{good(), good(), good()}, true, "", ""},
		{"none shows it", []*zoneServer{bare(), bare()}, false, whyAbsent, ""},
		{"one lies", []*zoneServer{good(), bare()}, false, "", "1 of 2 name servers show the record"},
		{"one is silent", []*zoneServer{good(), {mute: true}}, false, "", "1 of 2 name servers gave no answer"},
		{"one is silent, one misses it", []*zoneServer{bare(), {mute: true}}, false, "", "1 of 2 name servers gave no answer"},
		{"one fails", []*zoneServer{good(), {rcode: dns.RcodeServerFailure}}, false, "", "gave no answer"},
		{"one refuses", []*zoneServer{bare(), {rcode: dns.RcodeRefused}}, false, "", "gave no answer"},
		{"one has no authority", []*zoneServer{good(), {texts: good().texts, lame: true}}, false, "", "gave no answer"},
		{"an alias", []*zoneServer{{cname: map[string]string{record: "elsewhere.example.net."}}}, false, whyAlias, ""},
		{"a wildcard", []*zoneServer{{wild: []string{value}}}, false, whyWildcard, ""},
		{"another value", []*zoneServer{{texts: map[string][]string{record: {"the-token "}}}}, false, whyAbsent, ""},
		{"an answer for TCP", []*zoneServer{{texts: good().texts, large: true}, good()}, true, "", ""},
	} {
		t.Run(tt.what, func(t *testing.T) { //nolint:paralleltest // see above
			finding, err := network(t, tt.servers...).Proof(t.Context(), "_certharbor.WWW.example.com", value)
			unknown, _ := errors.AsType[*ErrUnknown](err)
			if finding.Stands != tt.stands || finding.Why != tt.why || (err != nil) != (tt.unknown != "") || err != nil && !strings.Contains(unknown.What, tt.unknown) {
				t.Errorf("%+v %v, want %+v", finding, err, tt)
			}
		})
	}
}

// A zone chooses where its servers are: nowhere but at public addresses are
// they asked, and at no port but their own.
func TestServersInside(t *testing.T) { //nolint:paralleltest // as above
	c := network(t, good())
	c.toServers = outbound.NewGuard(nil, c.port).Dialer(time.Second)
	if f, err := c.Proof(t.Context(), record, value); f.Stands || !errors.Is(err, outbound.ErrRefusedTarget) {
		t.Errorf("%+v %v", f, err)
	}
	c.toServers = outbound.NewGuard([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, 53).Dialer(time.Second)
	if f, err := c.Proof(t.Context(), record, value); f.Stands || !errors.Is(err, outbound.ErrRefusedTarget) {
		t.Errorf("%+v %v", f, err)
	}
	if _, err := New(Options{}).Proof(t.Context(), record, value); err == nil {
		t.Error("found without a resolver")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Proof(ctx, record, value); err == nil {
		t.Error("found after the end")
	}
}

func TestParseResolvers(t *testing.T) {
	t.Parallel()
	got, err := ParseResolvers([]string{"192.0.2.1", "192.0.2.2:5353", "2001:db8::1", "[2001:db8::2]:54"})
	if err != nil || fmt.Sprint(got) != "[192.0.2.1:53 192.0.2.2:5353 [2001:db8::1]:53 [2001:db8::2]:54]" {
		t.Errorf("%v %v", got, err)
	}
	for _, bad := range []string{"", "dns.example.com", "192.0.2.1:x"} {
		if _, err := ParseResolvers([]string{bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
