package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/ratelimit"
)

const (
	// MaxAnswer is the largest JSON answer in bytes; lists end before it.
	MaxAnswer = 4<<20 - 1
	// PageBytes is what the rows of a page hold.
	PageBytes = 2 << 20
	// SmallPageBytes is what those of a page of at most 100 rows hold.
	SmallPageBytes = 512 << 10

	// AnswersInMaking is what answers hold from the query to the last byte
	// sent: an estimate at first, twice what a page holds, then their length.
	AnswersInMaking = 24 << 20
	answersShare    = 8 << 20
	heavyAnswer     = 4 << 20
	// answerPatience is how long an answer waits until its turn has come.
	answerPatience = 10 * time.Second
)

// Heavy marks a route whose answer may hold a megabyte without being a list.
func Heavy(r *RouteInfo) { r.Answer = heavyAnswer }

// Bytes is how much the rows of the page may hold before it ends early.
func (p Page) Bytes() int {
	if p.Limit <= 100 {
		return SmallPageBytes
	}
	return PageBytes
}

func (p Page) page() Page { return p }

// Fill reads the rows of a page in steps until the page has its number or its
// bytes, of which each row has size(row), or there are no more. It always gives
// one row where there is one; early tells that bytes ended the page.
func Fill[T any](p Page, step int64, size func(*T) int, read func(most, skip int64) ([]T, error)) (rows []T, early bool, err error) {
	left := p.Bytes()
	for int64(len(rows)) < p.Limit {
		most := min(step, p.Limit-int64(len(rows)))
		next, err := read(most, p.Offset+int64(len(rows)))
		if err != nil {
			return nil, false, err
		}
		for i := range next {
			if left -= size(&next[i]); left < 0 && len(rows) > 0 {
				return rows, true, nil
			}
			rows = append(rows, next[i])
		}
		if int64(len(next)) < most {
			break
		}
	}
	return rows, false, nil
}

// reserve waits until the answer may be made.
func (m *Mux) reserve(ctx context.Context, bytes int64) error {
	s := stateFrom(ctx)
	holder := ratelimit.AddressKey(ClientIP(ctx))
	if caller := access.From(ctx); caller != nil {
		holder = "user " + strconv.FormatInt(caller.UserID, 10)
	}
	patient, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	if err := m.answers.wait(patient, holder, bytes); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fault.Unavailable(time.Second, "Too many large answers are being made; try again.", nil)
	}
	s.w.hold = &receipt{of: m.answers, holder: holder, size: bytes}
	return nil
}

// becomes sets what is held to what is sent.
func (r *receipt) becomes(n int64) {
	r.of.give(r.holder, r.size-n)
	r.size = n
}

var errLargeAnswer = errors.New("the answer is too large")

// notLarge refuses what encoding/json writes at once and is no answer any more.
type notLarge struct{ w io.Writer }

// Write implements io.Writer.
func (n notLarge) Write(b []byte) (int, error) {
	if len(b) > MaxAnswer {
		return 0, errLargeAnswer
	}
	return n.w.Write(b)
}

// marshal writes v at once, as Encode does, and a list that is too large as
// the shorter one that fits.
func marshal(w io.Writer, v any) error {
	for {
		encoder := json.NewEncoder(notLarge{w})
		encoder.SetEscapeHTML(false)
		err := encoder.Encode(v)
		list, isList := v.(interface{ shorten() bool })
		if errors.Is(err, errLargeAnswer) && isList && list.shorten() {
			continue
		}
		if err != nil {
			return fmt.Errorf("encode answer: %w", err)
		}
		return nil
	}
}

// shorten drops the second half of a list, and says where to go on.
func (e *envelope[T]) shorten() bool {
	data := reflect.ValueOf(&e.Data).Elem()
	list := data
	if list.Kind() == reflect.Interface {
		list = list.Elem()
	}
	if e.Meta == nil || list.Kind() != reflect.Slice || list.Len() < 2 {
		return false
	}
	half := list.Len() / 2
	data.Set(list.Slice(0, half))
	meta := *e.Meta
	next := meta.Offset + int64(half)
	meta.NextOffset = &next
	e.Meta = &meta
	return true
}
