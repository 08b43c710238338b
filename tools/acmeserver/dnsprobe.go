package main

import (
	"time"

	"github.com/miekg/dns"
)

// answers asks for marker's A record over TCP, as Pebble will, until it is want or two seconds are
// over. Only the helper that was just started knows the marker, so a stranger on the port is noticed.
func answers(address, marker, want string) bool {
	client := &dns.Client{Net: "tcp", Timeout: time.Second}
	question := new(dns.Msg).SetQuestion(dns.Fqdn(marker), dns.TypeA)
	for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		reply, _, err := client.Exchange(question, address)
		if err != nil {
			continue
		}
		for _, rr := range reply.Answer {
			if a, ok := rr.(*dns.A); ok && a.A.String() == want {
				return true
			}
		}
		return false
	}
	return false
}
