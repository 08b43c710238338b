package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/web"
)

// rows are what a store would read: 3000 rows of that text, size times.
func rows(text string, size int) func(most, skip int64) ([]item, error) {
	return func(most, skip int64) ([]item, error) {
		var part []item
		for id := skip; id < min(skip+most, 3000); id++ {
			part = append(part, item{id, strings.Repeat(text, size)})
		}
		return part, nil
	}
}

func itemSize(i *item) int { return len(i.Name) }

// An answer is below 4 MiB, whatever the store gave: a list says where to go on,
// and going on gives every row once.
func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	m := web.New(web.Options{Log: slog.New(slog.DiscardHandler)})
	for name, text := range map[string]string{"light": "a", "heavy": strings.Repeat("a", 60), "huge": strings.Repeat("a", 3900), "grows": strings.Repeat("\x01", 150)} {
		size := 1000 * len(text)
		if name == "light" {
			size = 10
		}
		read := rows(text, size/len(text))
		web.RouteReply(m, "GET /filled/"+name, access.Public(), func(_ context.Context, in *listInput) (*web.Reply[[]item], error) {
			all, _, err := web.Fill(in.Page, 7, itemSize, read)
			return web.List(all, 3000, in.Page), err
		})
		web.RouteReply(m, "GET /whole/"+name, access.Public(), func(_ context.Context, in *listInput) (*web.Reply[any], error) {
			all, err := read(min(in.Limit, max(6, 4_000_000/int64(size+1))), in.Offset)
			reply := web.List(all, 3000, in.Page)
			return &web.Reply[any]{Data: all, Meta: reply.Meta}, err
		})
	}
	for _, path := range []string{"/filled/light", "/filled/heavy", "/filled/huge", "/filled/grows", "/whole/light", "/whole/heavy", "/whole/huge"} {
		var ids []int64
		for offset, steps := int64(2000), 0; steps < 2; steps++ {
			w := do(m, "GET", fmt.Sprintf("%s?limit=900&offset=%d", path, offset), "")
			var page struct {
				Data []item
				Meta web.Meta
			}
			if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != 200 || w.Body.Len() >= 4<<20 {
				t.Fatalf("%s: %d, %d bytes, %v", path, w.Code, w.Body.Len(), err)
			}
			for _, i := range page.Data {
				ids = append(ids, i.ID)
			}
			offset += int64(len(page.Data))
			if full := len(page.Data) == 900; full != (page.Meta.NextOffset == nil) || !full && offset < 3000 && *page.Meta.NextOffset != offset {
				t.Fatalf("%s: %d rows, meta %+v", path, len(page.Data), page.Meta)
			}
			if len(page.Data) == 900 {
				break
			}
		}
		if len(ids) == 0 || !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != len(ids) || ids[0] != 2000 || ids[len(ids)-1] != 1999+int64(len(ids)) {
			t.Errorf("%s: %d rows, %v", path, len(ids), ids)
		}
	}
}

// A store that stops where Fill stops never has more than a page and a step.
func TestFillStops(t *testing.T) {
	t.Parallel()
	for limit, most := range map[int64]int{100: web.SmallPageBytes, 1000: web.PageBytes} {
		read, asked := rows("a", 10_000), 0
		all, early, err := web.Fill(web.Page{Limit: limit}, 10, itemSize, func(most, skip int64) ([]item, error) {
			part, err := read(most, skip)
			asked += len(part) * 10_000
			return part, err
		})
		if err != nil || !early || len(all) != most/10_000 || asked > most+10*10_000 {
			t.Errorf("limit %d: %d rows, early %v, %d bytes read, %v", limit, len(all), early, asked, err)
		}
	}
	all, early, err := web.Fill(web.Page{Limit: 5}, 10, func(*item) int { return 1 << 30 }, rows("a", 1))
	if len(all) != 1 || !early || err != nil {
		t.Errorf("rows larger than a page: %d, %v, %v", len(all), early, err)
	}
}

// However many ask for a large page at once, few are made at a time; no user
// has more than a share, and one who waits that long is told to come back.
func TestAnswersInMaking(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, most, ofOne := map[int64]int{}, 0, 0
		open := make(chan struct{})
		m := web.New(web.Options{Log: slog.New(slog.DiscardHandler), Auth: web.Authenticator{
			Session: func(r *http.Request) (*access.Caller, error) {
				var user int64
				_, err := fmt.Sscanf(r.Header.Get("Cookie"), "s=%d", &user)
				return &access.Caller{Kind: access.KindSession, UserID: user}, err
			},
		}})
		web.RouteReply(m, "GET /list", access.Session(), func(ctx context.Context, in *listInput) (*web.Reply[[]item], error) {
			user := access.From(ctx).UserID
			mu.Lock()
			now[user]++
			sum := 0
			for _, n := range now {
				sum += n
			}
			most, ofOne = max(most, sum), max(ofOne, now[user])
			mu.Unlock()
			<-open
			mu.Lock()
			now[user]--
			mu.Unlock()
			return web.List([]item{{1, "a"}}, 1, in.Page), nil
		})
		var group sync.WaitGroup
		codes := make(chan int, 200)
		ask := func(user int) {
			group.Go(func() {
				r := httptest.NewRequest(http.MethodGet, "/list?limit=1000", nil)
				r.Header.Set("Cookie", fmt.Sprintf("s=%d", user))
				w := httptest.NewRecorder()
				m.ServeHTTP(w, r)
				codes <- w.Code
			})
		}
		for range 50 {
			ask(1)
		}
		synctest.Wait()
		if ofOne != 2 {
			t.Errorf("one user has %d at once, want 2 of 4 MiB in 8", ofOne)
		}
		for user := range 50 {
			ask(user)
		}
		synctest.Wait()
		if most != web.AnswersInMaking/(2*web.PageBytes) || ofOne != 2 {
			t.Errorf("%d at once, %d of one user", most, ofOne)
		}
		group.Go(func() { // after all others have waited for too long
			for range 100 - most {
				if code := <-codes; code != http.StatusServiceUnavailable {
					t.Errorf("who waited: %d", code)
				}
			}
			close(open)
		})
		group.Wait()
		ask(1)
		group.Wait()
		for range most + 1 {
			if code := <-codes; code != http.StatusOK {
				t.Errorf("who did not: %d", code)
			}
		}
	})
}
