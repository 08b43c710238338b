package authdns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"

	"certharbor.dev/certharbor/internal/outbound"
)

// Options set up a Client. Resolvers must be given.
type Options struct {
	Resolvers  []netip.AddrPort // where zones, servers and addresses are found
	AllowCIDRs []netip.Prefix   // special ranges that name servers may be in
	Port       uint16           // of name servers; 0: 53. For tests.
	Timeout    time.Duration    // of one question; 0: 2 s
}

const (
	dnsPort        = 53
	defaultTimeout = 2 * time.Second
	tries          = 2
	lookUpTime     = 15 * time.Second // the whole of a look-up
	udpSize        = 1232             // what passes everywhere in one piece
)

// Client looks records up. It is safe for concurrent use.
type Client struct {
	resolvers []string
	toResolve *net.Dialer
	toServers *net.Dialer
	port      uint16
	timeout   time.Duration
}

// New returns a client.
func New(o Options) *Client {
	c := &Client{port: o.Port, timeout: o.Timeout}
	if c.port == 0 {
		c.port = dnsPort
	}
	if c.timeout == 0 {
		c.timeout = defaultTimeout
	}
	var chosen []netip.Prefix // by the operator, wherever they are
	for _, r := range o.Resolvers {
		addr := r.Addr().Unmap().WithZone("")
		chosen = append(chosen, netip.PrefixFrom(addr, addr.BitLen()))
		c.resolvers = append(c.resolvers, netip.AddrPortFrom(addr, r.Port()).String())
	}
	c.toResolve = outbound.NewGuard(chosen).Dialer(c.timeout)
	c.toServers = outbound.NewGuard(o.AllowCIDRs, c.port).Dialer(c.timeout)
	return c
}

var (
	errNoResolver = errors.New("no resolver is known")
	errStrange    = errors.New("the answer belongs to another question")
)

// resolve asks the resolvers, one after the other, and takes the first answer
// that is one: NOERROR or NXDOMAIN.
func (c *Client) resolve(ctx context.Context, name string, kind uint16) (*dns.Msg, error) {
	failure := errNoResolver
	for _, resolver := range c.resolvers {
		m := question(name, kind)
		m.RecursionDesired = true
		answer, err := c.exchange(ctx, c.toResolve, resolver, m)
		if err == nil && answer.Rcode != dns.RcodeSuccess && answer.Rcode != dns.RcodeNameError {
			err = fmt.Errorf("the resolver answers %s", dns.RcodeToString[answer.Rcode])
		}
		if err == nil {
			return answer, nil
		}
		failure = err
	}
	return nil, fmt.Errorf("resolve %s: %w", name, failure)
}

func question(name string, kind uint16) *dns.Msg {
	m := new(dns.Msg).SetQuestion(name, kind)
	m.RecursionDesired = false
	m.SetEdns0(udpSize, false)
	return m
}

// exchange sends the question by UDP, again when nothing comes, and by TCP when
// the answer does not fit.
func (c *Client) exchange(ctx context.Context, dialer *net.Dialer, address string, m *dns.Msg) (*dns.Msg, error) {
	client := dns.Client{Net: "udp", Dialer: dialer, Timeout: c.timeout, UDPSize: udpSize}
	var answer *dns.Msg
	var err error
	for range tries {
		answer, _, err = client.ExchangeContext(ctx, m, address)
		if err == nil || ctx.Err() != nil || errors.Is(err, outbound.ErrRefusedTarget) {
			break
		}
	}
	if err == nil && answer.Truncated || err != nil && answer != nil {
		client.Net = "tcp"
		answer, _, err = client.ExchangeContext(ctx, m, address)
	}
	if err != nil {
		return nil, err
	}
	if !answer.Response || len(answer.Question) != 1 || answer.Question[0].Qtype != m.Question[0].Qtype ||
		!strings.EqualFold(answer.Question[0].Name, m.Question[0].Name) {
		return nil, errStrange
	}
	return answer, nil
}
