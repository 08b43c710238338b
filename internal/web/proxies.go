package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
)

// ProxyHeader is the header in which trusted proxies name the client.
type ProxyHeader string

// The headers that can be set; the zero value is XForwardedFor.
const (
	XForwardedFor ProxyHeader = "x-forwarded-for"
	Forwarded     ProxyHeader = "forwarded" // RFC 7239
)

// ParseProxyHeader reads the setting; "" is x-forwarded-for.
func ParseProxyHeader(text string) (ProxyHeader, error) {
	switch header := ProxyHeader(strings.ToLower(text)); header {
	case "", XForwardedFor:
		return XForwardedFor, nil
	case Forwarded:
		return Forwarded, nil
	}
	return "", errors.New("must be x-forwarded-for or forwarded")
}

// Proxies are those in front of the server whose word about the client counts.
type Proxies struct {
	Trusted []netip.Prefix // none: nothing is believed
	Header  ProxyHeader    // the only one that is read
}

// from says who sends the request and whether it comes by TLS, as far as the
// connection and the proxies that are trusted say: the client is the rightmost
// address that is not a trusted proxy's.
func (p Proxies) from(r *http.Request) (client string, overTLS bool) {
	peer, ok := parseNode(r.RemoteAddr)
	if !ok {
		return r.RemoteAddr, r.TLS != nil
	}
	if !p.trusts(peer) {
		return peer.String(), r.TLS != nil
	}
	last := peer
	hops := p.hops(r.Header)
	for {
		text, more := hops()
		if !more {
			break
		}
		node, ok := parseNode(text)
		if !ok { // unknown, hidden or garbage: the proxy that wrote it is the last that is known
			break
		}
		if last = node; !p.trusts(node) {
			break
		}
	}
	return last.String(), r.TLS != nil || p.saysTLS(r.Header)
}

func (p Proxies) trusts(a netip.Addr) bool {
	for _, prefix := range p.Trusted {
		if prefix.Contains(a) {
			return true
		}
	}
	return false
}

// maxHops is more than any chain of proxies is long.
const maxHops = 32

// hops gives the nodes from the right to the left, of all lines of the header.
func (p Proxies) hops(h http.Header) func() (string, bool) {
	name, node := "X-Forwarded-For", strings.TrimSpace
	if p.Header == Forwarded {
		name, node = "Forwarded", func(element string) string { return parameter(element, "for") }
	}
	lines, left := h[name], maxHops
	rest, more := "", false
	return func() (string, bool) {
		if !more {
			if len(lines) == 0 {
				return "", false
			}
			rest, lines, more = lines[len(lines)-1], lines[:len(lines)-1], true
		}
		if left--; left < 0 {
			return "", false
		}
		var element string
		rest, element, more = cutLast(rest)
		return node(element), true
	}
}

// cutLast gives the last element of a list and what stands before it. It reads
// from the right, so that what a stranger put on the left changes nothing.
func cutLast(list string) (before, last string, more bool) {
	quoted := false
	for i := len(list) - 1; i >= 0; i-- {
		switch {
		case list[i] == '"':
			quoted = !quoted
		case list[i] == ',' && !quoted:
			return list[:i], list[i+1:], true
		}
	}
	return "", list, false
}

// parameter is the value of a parameter of a forwarded-element (RFC 7239 section
// 4), "" when it is absent or there twice.
func parameter(element, name string) (value string) {
	found := false
	for pair := range strings.SplitSeq(element, ";") {
		key, text, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if !ok || !strings.EqualFold(key, name) {
			continue
		}
		if found {
			return ""
		}
		found, value = true, text
	}
	if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
		value = value[1 : len(value)-1]
	}
	return value
}

// parseNode reads an address with or without a port; one of IPv6 stands in
// brackets where a port can follow.
func parseNode(text string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	if err != nil {
		var withPort netip.AddrPort
		if withPort, err = netip.ParseAddrPort(text); err != nil {
			return netip.Addr{}, false
		}
		a = withPort.Addr()
	}
	return a.Unmap().WithZone(""), true
}

// saysTLS is the word of the proxy that speaks to the server, the last one.
func (p Proxies) saysTLS(h http.Header) bool {
	if lines := h["Forwarded"]; p.Header == Forwarded && len(lines) > 0 {
		_, last, _ := cutLast(lines[len(lines)-1])
		if proto := parameter(last, "proto"); proto != "" {
			return strings.EqualFold(proto, "https")
		}
	}
	lines := h["X-Forwarded-Proto"]
	if len(lines) == 0 {
		return false
	}
	_, last, _ := cutLast(lines[len(lines)-1])
	return strings.EqualFold(strings.TrimSpace(last), "https")
}

// proxyWatch warns once of what says that a proxy is in front of the server
// without being trusted: every client then counts as one.
type proxyWatch struct {
	warned atomic.Bool
	first  atomic.Pointer[string]
	others atomic.Bool
	seen   atomic.Int64
}

// manyRequests of one address alone, under a public address of https that this
// server does not serve itself, are those of a proxy.
const manyRequests = 1000

func (w *proxyWatch) look(ctx context.Context, m *Mux, r *http.Request, client string) {
	if len(m.proxies.Trusted) > 0 || w.warned.Load() {
		return
	}
	header := ""
	for _, name := range []string{"X-Forwarded-For", "Forwarded"} {
		if len(r.Header[name]) > 0 {
			header = name
		}
	}
	if header != "" {
		w.warn(ctx, m.log, "a header names another client and is ignored; if a proxy of yours sent it, name its addresses with --trusted-proxies",
			slog.String("header", header), slog.String("peer", client))
		return
	}
	if !m.https || r.TLS != nil || w.others.Load() {
		return
	}
	if first := w.first.Load(); first == nil {
		w.first.CompareAndSwap(nil, &client)
	} else if *first != client {
		w.others.Store(true)
		return
	}
	if w.seen.Add(1) == manyRequests {
		w.warn(ctx, m.log, "all requests come from one address, so all clients share their limits; if it is a proxy, name it with --trusted-proxies",
			slog.String("peer", client))
	}
}

func (w *proxyWatch) warn(ctx context.Context, log *slog.Logger, message string, attrs ...slog.Attr) {
	if !w.warned.Swap(true) {
		log.LogAttrs(ctx, slog.LevelWarn, message, attrs...)
	}
}
