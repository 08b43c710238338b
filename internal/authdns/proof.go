package authdns

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/miekg/dns"
)

// Finding is what all name servers say about a record.
type Finding struct {
	Stands bool
	Why    string // why it does not count, a sentence
}

// ErrUnknown says that the servers could not all be heard, or do not agree. Its
// text is a sentence for people.
type ErrUnknown struct {
	What string
	Err  error // for the log
}

// Error returns the sentence and, for the log, the cause.
func (e *ErrUnknown) Error() string { return fmt.Sprintf("%s: %v", e.What, e.Err) }

// Unwrap returns the cause.
func (e *ErrUnknown) Unwrap() error { return e.Err }

// The sentences about records that do not count.
const (
	whyAbsent   = "The name servers do not show the record."
	whyAlias    = "The record is a CNAME, which is not followed; set a TXT record itself."
	whyWildcard = "A wildcard TXT record answers for every name there; set the record itself."
)

// parallel is how many addresses are asked at once.
const parallel = 8

// Proof looks whether the TXT record at name has the value, at every
// authoritative server. The error is an *ErrUnknown.
func (c *Client) Proof(ctx context.Context, name, value string) (Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, lookUpTime)
	defer cancel()
	name = dns.CanonicalName(name)
	zone, err := c.zone(ctx, name)
	if err != nil {
		return Finding{}, &ErrUnknown{"The zone of the name could not be looked up.", err}
	}
	servers, err := c.servers(ctx, zone)
	if err != nil {
		return Finding{}, &ErrUnknown{"The name servers of the zone could not be looked up.", err}
	}
	return judge(c.askAll(ctx, servers, name, value))
}

// heard is what one server says.
type heard struct {
	has, alias, wildcard bool
	err                  error // nothing was heard
}

// askAll asks every address; a server is heard when one of its addresses is,
// and the first that does not show the record speaks for it.
func (c *Client) askAll(ctx context.Context, servers []server, name, value string) []heard {
	_, parent, _ := strings.Cut(name, ".")
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails, see crypto/rand
	sibling := "_" + hex.EncodeToString(random[:]) + "." + parent
	answers := make([][]heard, len(servers))
	places := make(chan struct{}, parallel)
	var group sync.WaitGroup
	for i, s := range servers {
		answers[i] = make([]heard, len(s.addresses))
		for k, addr := range s.addresses {
			places <- struct{}{}
			group.Go(func() {
				defer func() { <-places }()
				answers[i][k] = c.ask(ctx, netip.AddrPortFrom(addr, c.port).String(), name, sibling, value)
			})
		}
	}
	group.Wait()
	all := make([]heard, len(servers))
	for i := range answers {
		all[i] = speaker(answers[i])
	}
	return all
}

func speaker(addresses []heard) heard {
	for _, wanted := range []func(heard) bool{
		func(h heard) bool { return h.err == nil && !h.has },
		func(h heard) bool { return h.err == nil },
	} {
		if i := slices.IndexFunc(addresses, wanted); i >= 0 {
			return addresses[i]
		}
	}
	return addresses[0]
}

// ask asks one address for the record, and for the one beside it.
func (c *Client) ask(ctx context.Context, address, name, sibling, value string) heard {
	values, alias, err := c.texts(ctx, address, name)
	h := heard{has: slices.Contains(values, value), alias: alias, err: err}
	if err != nil || !h.has {
		return h
	}
	if values, _, h.err = c.texts(ctx, address, sibling); h.err == nil {
		h.wildcard = slices.Contains(values, value)
	}
	return h
}

var errNoAuthority = errors.New("the server has no authority over the zone")

// texts are the values of the TXT records at name.
func (c *Client) texts(ctx context.Context, address, name string) (values []string, alias bool, err error) {
	answer, err := c.exchange(ctx, c.toServers, address, question(name, dns.TypeTXT))
	switch {
	case err != nil:
		return nil, false, err
	case answer.Rcode != dns.RcodeSuccess && answer.Rcode != dns.RcodeNameError:
		return nil, false, fmt.Errorf("the server answers %s", dns.RcodeToString[answer.Rcode])
	case !answer.Authoritative:
		return nil, false, errNoAuthority
	}
	for _, record := range answer.Answer {
		switch r := record.(type) {
		case *dns.CNAME, *dns.DNAME:
			alias = true
		case *dns.TXT:
			if strings.EqualFold(r.Hdr.Name, name) && r.Hdr.Class == dns.ClassINET {
				values = append(values, strings.Join(r.Txt, ""))
			}
		}
	}
	if alias {
		values = nil
	}
	return values, alias, nil
}

// judge makes one finding of what all servers say.
func judge(all []heard) (Finding, error) {
	silent, has, alias, wildcard := 0, 0, false, false
	var cause error
	for _, h := range all {
		if h.err != nil {
			silent++
			cause = h.err
			continue
		}
		alias, wildcard = alias || h.alias, wildcard || h.wildcard
		if h.has {
			has++
		}
	}
	switch {
	case silent > 0:
		return Finding{}, &ErrUnknown{fmt.Sprintf("%d of %d name servers gave no answer that counts.", silent, len(all)), cause}
	case has > 0 && has < len(all):
		return Finding{}, &ErrUnknown{fmt.Sprintf("%d of %d name servers show the record; wait until all do.", has, len(all)), errors.New("they disagree")}
	case alias:
		return Finding{Why: whyAlias}, nil
	case has == 0:
		return Finding{Why: whyAbsent}, nil
	case wildcard:
		return Finding{Why: whyWildcard}, nil
	}
	return Finding{Stands: true}, nil
}
