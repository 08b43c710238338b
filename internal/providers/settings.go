package providers

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"certharbor.dev/certharbor/internal/identity"
)

// Settings are the providers that an operator has registered this server with.
type Settings struct {
	GitHub *GitHub
	Weixin *Weixin
	OIDC   []OIDC
	Solana bool
	Wallet Door
}

// Door says whom a provider lets in who has no account here; bound accounts
// always sign in.
type Door struct {
	Registration identity.RegistrationMode // "": that of the server
	Domains      []string                  // of verified addresses; none: any address or none
}

// GitHub is an OAuth app at github.com or a GitHub Enterprise Server.
type GitHub struct {
	ClientID, ClientSecret string
	Door                   Door
	URL                    string // https://github.com
	APIURL                 string // https://api.github.com
}

// Weixin is a website application of open.weixin.qq.com.
type Weixin struct {
	AppID, AppSecret string
	Door             Door
	AuthorizeURL     string // https://open.weixin.qq.com/connect/qrconnect
	APIURL           string // https://api.weixin.qq.com
}

// OIDC is a client of an OpenID Connect provider.
type OIDC struct {
	Name, Title            string // code, and name for people
	Issuer                 string // exactly as in the provider's ID tokens
	ClientID, ClientSecret string // a public client has no secret
	Door                   Door
}

// Raw are settings as an operator writes them: members as name=value, separated
// by commas. A secret may be in a file of its own, client_secret_file=….
type Raw struct {
	GitHub string   // client_id, client_secret, url?, api_url?, registration?, domains?
	Weixin string   // app_id, app_secret, authorize_url?, api_url?, registration?
	OIDC   []string // name, issuer, client_id, client_secret?, title?, registration?, domains?
	Solana string   // on, off, or on,registration=open
}

// Parse reads the settings and the files of their secrets. The error lists
// everything that is wrong and holds no value of a secret.
func Parse(raw Raw) (Settings, error) {
	var s Settings
	var errs []error
	if raw.GitHub != "" {
		m := readMembers("github", raw.GitHub, "client_id", "client_secret", "url", "api_url", "registration", "domains")
		g := GitHub{ClientID: m.required("client_id"), ClientSecret: m.required("client_secret"), URL: m.address("url", "https://github.com"), Door: m.door()}
		api := "https://api.github.com"
		if g.URL != "https://github.com" {
			api = g.URL + "/api/v3"
		}
		g.APIURL = m.address("api_url", api)
		s.GitHub, errs = &g, append(errs, m.errs...)
	}
	if raw.Weixin != "" {
		m := readMembers("weixin", raw.Weixin, "app_id", "app_secret", "authorize_url", "api_url", "registration")
		s.Weixin = &Weixin{
			AppID: m.required("app_id"), AppSecret: m.required("app_secret"),
			AuthorizeURL: m.address("authorize_url", "https://open.weixin.qq.com/connect/qrconnect"), APIURL: m.address("api_url", "https://api.weixin.qq.com"), Door: m.door(),
		}
		errs = append(errs, m.errs...)
	}
	for _, text := range raw.OIDC {
		o, err := parseOIDC(text)
		if slices.ContainsFunc(s.OIDC, func(other OIDC) bool { return other.Name == o.Name }) {
			err = append(err, fmt.Errorf("oidc: the name %q is there twice", o.Name))
		}
		s.OIDC, errs = append(s.OIDC, o), append(errs, err...)
	}
	var err []error
	s.Solana, s.Wallet, err = parseSolana(raw.Solana)
	errs = append(errs, err...)
	return s, errors.Join(errs...)
}

// parseSolana reads on, off, and what follows on: registration=open.
func parseSolana(text string) (on bool, door Door, errs []error) {
	word, rest, more := strings.Cut(text, ",")
	switch {
	case word == "off" && !more:
		return false, Door{}, nil
	case word == "" && !more, word == "on" && !more:
		return true, Door{}, nil
	case word == "on":
		text = rest
	case !strings.Contains(word, "="):
		return false, Door{}, []error{errors.New("solana: must be on or off, or on,registration=open")}
	}
	m := readMembers("solana", text, "registration")
	return true, m.door(), m.errs
}

// oidcName is a segment of a path and a code beside those of the other kinds.
var oidcName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

func parseOIDC(text string) (OIDC, []error) {
	m := readMembers("oidc", text, "name", "title", "issuer", "client_id", "client_secret", "registration", "domains")
	o := OIDC{Name: m.required("name"), Title: m.values["title"], ClientID: m.required("client_id"), ClientSecret: m.values["client_secret"], Door: m.door()}
	if o.Name != "" && (!oidcName.MatchString(o.Name) || slices.Contains([]string{kindGitHub, kindWeixin, kindSolana}, o.Name)) {
		m.badf("name", "must be 1 to 32 of a-z 0-9 - and none of github, weixin and solana")
	}
	if o.Issuer = m.required("issuer"); o.Issuer != "" {
		if err := checkAddress(o.Issuer); err != nil {
			m.badf("issuer", "%w", err)
		}
	}
	if o.Title == "" {
		o.Title = o.Name
	}
	return o, m.errs
}

// members are the parts of one setting.
type members struct {
	setting string
	values  map[string]string
	errs    []error
}

func (m *members) badf(name, format string, args ...any) {
	m.errs = append(m.errs, fmt.Errorf("%s: %s: "+format, append([]any{m.setting, name}, args...)...))
}

// readMembers takes a setting apart. A member *_file gives the value of the one
// that it is named after.
func readMembers(setting, text string, known ...string) *members {
	m := &members{setting: setting, values: map[string]string{}}
	for part := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(part, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		file, isFile := strings.CutSuffix(name, "_secret_file")
		if isFile {
			name = file + "_secret"
		}
		if !found || !slices.Contains(known, name) { // the text may be the end of a secret that holds a comma
			m.errs = append(m.errs, fmt.Errorf("%s: takes name=value, separated by commas, of %s; a secret that holds a comma goes into a file, *_secret_file",
				setting, strings.Join(known, ", ")))
			return m
		}
		if _, twice := m.values[name]; twice {
			m.badf(name, "is there twice")
		}
		if isFile {
			value = m.read(name, value)
		}
		m.values[name] = value
	}
	return m
}

func (m *members) read(name, path string) string {
	content, err := os.ReadFile(path) //nolint:gosec // the operator names it
	if err != nil {
		m.badf(name+"_file", "%w", err)
	}
	return strings.TrimSpace(string(content))
}

func (m *members) required(name string) string {
	if m.values[name] == "" && len(m.errs) == 0 {
		m.badf(name, "is required")
	}
	return m.values[name]
}

// address is a URL without a slash at its end.
func (m *members) address(name, otherwise string) string {
	value := strings.TrimRight(m.values[name], "/")
	if value == "" {
		return otherwise
	}
	if err := checkAddress(value); err != nil {
		m.badf(name, "%w", err)
	}
	return value
}

// domainName is what can stand behind the @ of an address.
var domainName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)

// door reads the members registration and domains.
func (m *members) door() Door {
	var d Door
	switch mode := identity.RegistrationMode(m.values["registration"]); mode {
	case "", identity.RegistrationOpen, identity.RegistrationClosed:
		d.Registration = mode
	default:
		m.badf("registration", "must be open or closed; without it the server's own setting counts")
	}
	for domain := range strings.FieldsSeq(strings.ToLower(m.values["domains"])) {
		if !domainName.MatchString(domain) {
			m.badf("domains", "must be names such as example.org, separated by spaces")
		}
		d.Domains = append(d.Domains, domain)
	}
	return d
}

var errAddress = errors.New("must be https://…, or http:// on a loopback address")

// checkAddress admits the URLs to which secrets may be sent.
func checkAddress(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Opaque != "" {
		return errAddress
	}
	ip, err := netip.ParseAddr(u.Hostname())
	local := err == nil && ip.IsLoopback() || u.Hostname() == "localhost"
	if u.Scheme != "https" && (u.Scheme != "http" || !local) {
		return errAddress
	}
	return nil
}

// Shown is a setting of Raw with its secrets hidden.
func Shown(setting string) string {
	if setting == "" {
		return ""
	}
	parts := strings.Split(setting, ",")
	for i, part := range parts {
		name, _, found := strings.Cut(part, "=")
		switch {
		case !found:
			return "(hidden)" // it may be the end of a secret
		case strings.HasSuffix(strings.TrimSpace(name), "_secret"):
			parts[i] = name + "=(hidden)"
		}
	}
	return strings.Join(parts, ",")
}
