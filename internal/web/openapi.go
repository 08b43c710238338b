package web

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/swaggest/swgui/v5emb"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
)

// hookOnce sets huma's process-wide error hooks, the only way to keep huma from
// answering in its own shape, and from documenting it.
var hookOnce sync.Once //nolint:gochecknoglobals // as global as the hook it guards

func newAPI(m *Mux, version string) huma.API {
	hookOnce.Do(func() {
		huma.NewErrorWithContext = validation
		huma.NewError = func(status int, message string, _ ...error) huma.StatusError {
			return &answer{status: status, fault: fault.Invalid("", "%s", message)}
		}
	})
	schemas := huma.NewMapRegistry("#/components/schemas/", schemaName)
	schemas.RegisterTypeAlias(reflect.TypeFor[answer](), reflect.TypeFor[errorEnvelope]())
	config := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "CertHarbor", Version: version,
				Description: "Certificates, the devices that use them, and the work between. Every path under /apiv1/users/{user_id}/ is also served under /apiv1/me/.",
			},
			Components: &huma.Components{
				Schemas: schemas,
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"session": {Type: "apiKey", In: "cookie", Name: "session"},
					"apikey":  {Type: "http", Scheme: "bearer", Description: "An API key, ak_…"},
					"device":  {Type: "http", Scheme: "bearer", BearerFormat: "JWT"},
					"worker":  {Type: "http", Scheme: "bearer", Description: "A worker token."},
				},
			},
		},
		Formats:       map[string]huma.Format{"application/json": {Marshal: marshal, Unmarshal: unmarshal}, "json": {Marshal: marshal, Unmarshal: unmarshal}},
		DefaultFormat: "application/json",
	}
	return huma.NewAPI(config, &adapter{m})
}

// schemaName is huma's name without what a component's name may not hold.
func schemaName(t reflect.Type, hint string) string {
	return strings.ReplaceAll(huma.DefaultSchemaNamer(t, hint), "Interface {}", "Any")
}

// adapter mounts huma's operations on the Mux, each behind its guard.
type adapter struct{ m *Mux }

// Handle implements huma.Adapter.
func (a *adapter) Handle(op *huma.Operation, handler func(huma.Context)) {
	route, ok := op.Metadata["route"].(RouteInfo)
	if !ok {
		panic("web: a route without a rule: " + op.Path)
	}
	op.Metadata = nil
	a.m.router.Method(op.Method, op.Path, a.m.guard(&route, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		done, err := a.m.mayDecode(r)
		if err != nil {
			a.m.fail(w, r, err)
			return
		}
		defer done()
		handler(humachi.NewContext(op, r, w))
	})))
}

// ServeHTTP implements huma.Adapter.
func (a *adapter) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.m.ServeHTTP(w, r) }

func security(rule access.Rule) []map[string][]string {
	var s []map[string][]string
	for name, taken := range map[string]bool{"session": rule.TakesSession(), "apikey": rule.TakesKey(), "device": rule.TakesDevice(), "worker": rule.TakesWorker()} {
		if taken {
			s = append(s, map[string][]string{name: {}})
		}
	}
	if len(s) > 1 { // a map has no order, the document must
		s = []map[string][]string{{"session": {}}, {"apikey": {}}}
	}
	return s
}

// MountDocs serves the OpenAPI document at /openapi.json and a page that shows
// it at /docs. Call it after every area has mounted.
func (m *Mux) MountDocs() error {
	document, err := m.OpenAPI()
	if err != nil {
		return fmt.Errorf("render the OpenAPI document: %w", err)
	}
	Raw(m, "GET /openapi.json", access.Public(), 0, func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", "application/json")
		_, err := w.Write(document)
		return err
	})
	page := v5emb.New("CertHarbor API", "/openapi.json", "/docs/")
	policy := docsPolicy(page)
	serve := func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Content-Security-Policy", policy)
		file := &fileWriter{ResponseWriter: w}
		page.ServeHTTP(file, r)
		if file.absent {
			return unknownPath()
		}
		return nil
	}
	Raw(m, "GET /docs", access.Public(), 0, serve)
	Raw(m, "GET /docs/*", access.Public(), 0, serve)
	return nil
}

// docsPolicy allows the scripts that the page itself has, by their digests, and
// files of this server: the page has the origin of the session.
func docsPolicy(page http.Handler) string {
	html := &buffer{header: http.Header{}}
	page.ServeHTTP(html, &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/docs/"}})
	scripts := []string{"'self'"}
	for _, script := range inlineScript.FindAllSubmatch(html.Bytes(), -1) {
		scripts = append(scripts, digest(script[1]))
	}
	return "default-src 'self'; style-src 'self' 'unsafe-inline'; script-src " + strings.Join(scripts, " ") + "; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'"
}

// inlineScript finds the text of scripts that have no source.
var inlineScript = regexp.MustCompile(`(?s)<script(?:\s+type="[a-z/]+")?>(.*?)</script>`)

// buffer is an answer in memory.
type buffer struct {
	bytes.Buffer

	header http.Header
}

// Header implements http.ResponseWriter.
func (b *buffer) Header() http.Header { return b.header }

// WriteHeader implements http.ResponseWriter.
func (*buffer) WriteHeader(int) {}

// fileWriter keeps the file server's own answer for an absent file back.
type fileWriter struct {
	http.ResponseWriter
	absent bool
}

// WriteHeader implements http.ResponseWriter.
func (w *fileWriter) WriteHeader(status int) {
	if w.absent = status == http.StatusNotFound; !w.absent {
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (w *fileWriter) Write(b []byte) (int, error) {
	if w.absent {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}
