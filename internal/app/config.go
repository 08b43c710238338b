package app

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"

	"certharbor.dev/certharbor/internal/identity"
	"certharbor.dev/certharbor/internal/mail"
	"certharbor.dev/certharbor/internal/providers"
	"certharbor.dev/certharbor/internal/quotas"
	"certharbor.dev/certharbor/internal/web"
)

// Config are the settings of the server (decisions.md section 6). Each is a
// flag, an environment variable CERTHARBOR_<NAME> and a key of the YAML file,
// in rising order file, environment, flag.
type Config struct {
	Listen            string   `koanf:"listen"`
	Data              string   `koanf:"data"`
	DB                string   `koanf:"db"`
	BaseURL           string   `koanf:"base-url"`
	TLSListen         string   `koanf:"tls-listen"`
	TLSCert           string   `koanf:"tls-cert"`
	TLSKey            string   `koanf:"tls-key"`
	HTTP01Listen      string   `koanf:"http01-listen"`
	SessionCookie     string   `koanf:"session-cookie"`
	WebhookAllowCIDRs []string `koanf:"webhook-allow-cidrs"`
	ACMEAllowCIDRs    []string `koanf:"acme-allow-cidrs"`
	MasterKeyFile     string   `koanf:"master-key-file"`
	SMTPURL           string   `koanf:"smtp-url"`
	Limits            []string `koanf:"limits"`
	Registration      string   `koanf:"registration"`
	TrustedProxies    []string `koanf:"trusted-proxies"`
	ProxyHeader       string   `koanf:"trusted-proxy-header"`
	NamePolicy        string   `koanf:"name-policy"`
	ClaimDirectories  []string `koanf:"claim-directories"`
	DNSResolvers      []string `koanf:"dns-resolvers"`
	DNSAllowCIDRs     []string `koanf:"dns-allow-cidrs"`
	Quota             []string `koanf:"quota"`

	GitHub             string   `koanf:"github"`
	Weixin             string   `koanf:"weixin"`
	OIDC               []string `koanf:"oidc"`
	Solana             string   `koanf:"solana"`
	ProviderAllowCIDRs []string `koanf:"provider-allow-cidrs"`

	MaxConnections int `koanf:"max-connections"`

	LogLevel  string `koanf:"log-level"`
	LogFormat string `koanf:"log-format"`
}

// Flags declares the settings on a flag set, with their defaults.
func Flags(f *pflag.FlagSet) {
	f.String("config", "", "YAML `file` with settings; flags and CERTHARBOR_* variables win over it")
	f.String("listen", "127.0.0.1:8080", "`address` of the API, plain HTTP")
	f.String("data", "./data", "`folder` for the database, the master key and the lock")
	f.String("db", "", "PostgreSQL `address` postgres://user:password@host/name; empty: SQLite in the data folder")
	f.String("base-url", "", "public `address` of this server, for links; empty: from the listen address")
	f.String("tls-listen", "", "`address` of the API over TLS; empty: off")
	f.String("tls-cert", "", "PEM `file` with the certificate for --tls-listen; empty: one is made")
	f.String("tls-key", "", "PEM `file` with the key for --tls-listen")
	f.String("http01-listen", "", "further `address` that answers ACME HTTP-01 challenges, for example :80")
	f.String("session-cookie", "certharbor_session", "`name` of the session cookie")
	f.StringSlice("webhook-allow-cidrs", nil, "special `ranges` that webhooks may reach, for example 10.0.0.0/8")
	f.StringSlice("acme-allow-cidrs", nil, "special `ranges` that ACME directories may be in")
	f.String("master-key-file", "", "`file` with the master key; empty: master.key in the data folder, made on first start")
	f.String("smtp-url", "", "mail server, smtp://user:password@host:587?from=`address`; empty: mail is written to outbox in the data folder")
	f.StringSlice("trusted-proxies", nil, "`ranges` of the proxies in front of the server, whose word about clients counts, for example 127.0.0.1/32; empty: none")
	f.String("trusted-proxy-header", "x-forwarded-for", "the `header` in which they name the client, x-forwarded-for or forwarded; no other is read")
	f.String("registration", "closed", "who may make an account: closed (administrators alone), approval (an administrator lets each one in) or open")
	f.StringSlice("limits", nil, "other `limits` on guessing, for example wrong-passwords-per-account=10/15m,resets-per-account=5/1h")
	f.String("github", "", "sign in with GitHub, client_id=…,client_secret_file=`file`,registration=…,domains=…; empty: off")
	f.String("name-policy", "", "whose a name is: first-come (the first certificate claims the domain) or proved (a TXT record first); empty: first-come while registration is closed")
	f.StringSlice("claim-directories", nil, "`addresses` of ACME directories, besides the well-known ones, whose certificates claim names")
	f.StringSlice("dns-resolvers", nil, "`addresses` of resolvers for proofs of names; empty: those of /etc/resolv.conf")
	f.StringSlice("dns-allow-cidrs", nil, "special `ranges` that name servers may be in when names are proved")
	f.StringSlice("quota", nil, "what each `user` may have, for example certificates=1000,attempts-per-hour=60")
	f.String("weixin", "", "sign in with Weixin, app_id=…,app_secret_file=`file`; empty: off")
	f.StringArray("oidc", nil, "sign in with an OpenID Connect `provider`, name=…,issuer=https://…,client_id=…,client_secret_file=…; may be given several times")
	f.String("solana", "on", "sign in with a Solana wallet, on or off; on,registration=open lets new users in")
	f.StringSlice("provider-allow-cidrs", nil, "special `ranges` that the providers to sign in with may be in")
	f.Int("max-connections", defaultConnections, "most `connections` at once on all listeners, idle ones are closed first")
	f.String("log-level", "info", "debug, info, warn or error")
	f.String("log-format", "json", "json or text")
}

// OperatorFlags is Flags for the commands that work on the database beside the
// server: they take all settings, so that one command line serves both, and
// show those that say which database.
func OperatorFlags(f *pflag.FlagSet) {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	Flags(all)
	all.VisitAll(func(flag *pflag.Flag) {
		flag.Hidden = !slices.Contains([]string{"config", "data", "db", "master-key-file"}, flag.Name)
	})
	f.AddFlagSet(all)
}

const envPrefix = "CERTHARBOR_"

// Load reads the settings from flags, environment and file, without checking
// them. environ is in the form of os.Environ.
func Load(f *pflag.FlagSet, environ []string) (Config, error) {
	k := koanf.New(".")
	path, err := f.GetString("config")
	if err != nil {
		return Config{}, fmt.Errorf("read flag --config: %w", err)
	}
	variables := env.Provider(".", env.Opt{
		Prefix:        envPrefix,
		EnvironFunc:   func() []string { return environ },
		TransformFunc: func(name, value string) (string, any) { return fromEnvironment(f, name, value) },
	})
	fromEnv := koanf.New(".")
	if err := fromEnv.Load(variables, nil); err != nil {
		return Config{}, fmt.Errorf("read environment: %w", err)
	}
	if path == "" {
		path = fromEnv.String("config")
	}
	misspelt := unknownVariables(f, environ)
	if path != "" {
		if err := k.Load(file.Provider(path), yaml.Parser()); err != nil {
			return Config{}, errors.Join(misspelt, fmt.Errorf("read settings file: %w", err))
		}
		if err := flattenSignIn(k); err != nil {
			return Config{}, fmt.Errorf("settings file: %w", err)
		}
	}
	if err := k.Merge(fromEnv); err != nil {
		return Config{}, fmt.Errorf("merge environment: %w", err)
	}
	if err := k.Load(posflag.Provider(f, ".", k), nil); err != nil {
		return Config{}, fmt.Errorf("read flags: %w", err)
	}
	var c Config
	if err := k.Unmarshal("", &c); err != nil {
		return Config{}, errors.Join(misspelt, unknownKeys(k, f), fmt.Errorf("settings: %w", err))
	}
	return c, errors.Join(misspelt, unknownKeys(k, f))
}

// agentPrefix begins the variables of certharbor-agent, which are not the
// server's business.
const agentPrefix = envPrefix + "AGENT_"

// unknownVariables refuses misspelt variables.
func unknownVariables(f *pflag.FlagSet, environ []string) error {
	var errs []error
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, envPrefix) || strings.HasPrefix(name, agentPrefix) {
			continue
		}
		if f.Lookup(settingOf(name)) == nil || strings.ToUpper(name) != name {
			errs = append(errs, fmt.Errorf("%s: no such setting; see certharbor serve --help", name))
		}
	}
	return errors.Join(errs...)
}

func settingOf(variable string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(variable, envPrefix)), "_", "-")
}

// fromEnvironment turns CERTHARBOR_HTTP01_LISTEN into http01-listen.
func fromEnvironment(f *pflag.FlagSet, name, value string) (string, any) {
	key := settingOf(name)
	if f.Lookup(key) == nil {
		return "", nil
	}
	if strings.HasSuffix(key, "-cidrs") || slices.Contains([]string{"limits", "trusted-proxies", "claim-directories", "dns-resolvers", "quota"}, key) {
		if value == "" { // an empty list, not a list of an empty text
			return key, []string{}
		}
		return key, strings.Split(value, ",")
	}
	if key == "oidc" { // each of which has commas of its own
		return key, strings.Fields(value)
	}
	return key, value
}

// unknownKeys refuses misspelt keys of the file.
func unknownKeys(k *koanf.Koanf, f *pflag.FlagSet) error {
	var errs []error
	for _, key := range k.Keys() {
		if f.Lookup(key) == nil {
			errs = append(errs, fmt.Errorf("%s: no such setting; see certharbor serve --help", key))
		}
	}
	return errors.Join(errs...)
}

// Warnings are sentences about settings that work and are not safe.
func (c Config) Warnings() []string {
	host, _, err := net.SplitHostPort(c.Listen)
	address, _ := netip.ParseAddr(host)
	if err != nil || host == "localhost" || address.Unmap().IsLoopback() || len(c.TrustedProxies) > 0 {
		return nil
	}
	return []string{"listen: " + c.Listen + " takes plain HTTP from other machines, so that passwords and keys can be read on the way; " +
		"listen on 127.0.0.1 and use --tls-listen, or name the TLS proxies before it with --trusted-proxies"}
}

// Check lists everything that is wrong with the settings, or returns nil.
func (c Config) Check() error {
	var errs []error
	bad := func(name, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: "+format, append([]any{name}, args...)...))
	}
	for name, address := range map[string]string{"listen": c.Listen, "tls-listen": c.TLSListen, "http01-listen": c.HTTP01Listen} {
		if address == "" && name != "listen" {
			continue
		}
		if _, _, err := net.SplitHostPort(address); err != nil {
			bad(name, "must be host:port, for example 127.0.0.1:8080")
		}
	}
	if c.Data == "" {
		bad("data", "must name a folder")
	}
	if c.DB != "" && !strings.HasPrefix(c.DB, "postgres://") && !strings.HasPrefix(c.DB, "postgresql://") {
		bad("db", "must be empty (SQLite) or postgres://user:password@host:port/name")
	}
	if u, err := url.Parse(c.BaseURL); c.BaseURL != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		bad("base-url", "must be http://host or https://host")
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		bad("tls-cert", "and tls-key must be given together")
	}
	if strings.ContainsAny(c.SessionCookie, " =;,\t\"") || c.SessionCookie == "" {
		bad("session-cookie", "must be a cookie name, for example certharbor_session")
	}
	if _, err := prefixes(c.WebhookAllowCIDRs); err != nil {
		bad("webhook-allow-cidrs", "%w", err)
	}
	if _, err := prefixes(c.ACMEAllowCIDRs); err != nil {
		bad("acme-allow-cidrs", "%w", err)
	}
	if _, err := prefixes(c.ProviderAllowCIDRs); err != nil {
		bad("provider-allow-cidrs", "%w", err)
	}
	if _, err := providers.Parse(c.signInSettings()); err != nil {
		errs = append(errs, err) // which names the settings
	}
	if _, err := mail.ParseSMTP(c.SMTPURL); c.SMTPURL != "" && err != nil {
		bad("smtp-url", "%w", err)
	}
	if _, err := identity.ParseLimits(c.Limits); err != nil {
		bad("limits", "%w", err)
	}
	if _, err := c.proxies(); err != nil {
		errs = append(errs, err) // which names the settings
	}
	if _, err := identity.ParseRegistration(c.Registration); err != nil {
		bad("registration", "%w", err)
	}
	if err := c.checkNames(); err != nil {
		errs = append(errs, err) // which names the settings
	}
	if c.MaxConnections != 0 && c.MaxConnections < 64 {
		bad("max-connections", "must be at least 64")
	}
	if _, err := quotas.ParseLimits(c.Quota); err != nil {
		bad("quota", "%w", err)
	}
	if err := new(slog.LevelVar).UnmarshalText([]byte(c.LogLevel)); err != nil {
		bad("log-level", "must be debug, info, warn or error")
	}
	if c.LogFormat != "json" && c.LogFormat != "text" {
		bad("log-format", "must be json or text")
	}
	return errors.Join(errs...)
}

func prefixes(list []string) ([]netip.Prefix, error) {
	var result []netip.Prefix
	for _, s := range list {
		p, err := netip.ParsePrefix(strings.TrimSpace(s))
		if err != nil {
			return nil, fmt.Errorf("%q is not a range such as 10.0.0.0/8", s)
		}
		result = append(result, p)
	}
	return result, nil
}

// proxies are those whose word about clients counts.
func (c Config) proxies() (web.Proxies, error) {
	trusted, err := prefixes(c.TrustedProxies)
	if err != nil {
		return web.Proxies{}, fmt.Errorf("trusted-proxies: %w", err)
	}
	header, err := web.ParseProxyHeader(c.ProxyHeader)
	if err != nil {
		return web.Proxies{}, fmt.Errorf("trusted-proxy-header: %w", err)
	}
	return web.Proxies{Trusted: trusted, Header: header}, nil
}

// PublicURL is the address of this server in links, without a slash at the end.
func (c Config) PublicURL() string {
	if c.BaseURL != "" {
		return strings.TrimSuffix(c.BaseURL, "/")
	}
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil || host == "" || host == "0.0.0.0" || host == "::" {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// HTTPS reports whether people reach this server by https.
func (c Config) HTTPS() bool { return strings.HasPrefix(c.BaseURL, "https://") }

func (c Config) databasePath() string { return filepath.Join(c.Data, "certharbor.db") }

func (c Config) masterKeyPath() string {
	if c.MasterKeyFile != "" {
		return c.MasterKeyFile
	}
	return filepath.Join(c.Data, "master.key")
}

// auditStampPath is the file that knows of the audit log beside its database.
func (c Config) auditStampPath() string { return filepath.Join(c.Data, "audit.stamp") }

// Shown lists the effective settings as "name: value", secrets hidden.
func (c Config) Shown() []string {
	db := c.DB
	if u, err := url.Parse(db); err == nil && u.User != nil {
		db = u.Redacted()
	} else if db != "" {
		db = "(hidden)"
	}
	smtp := ""
	if c.SMTPURL != "" {
		smtp = "(hidden)"
		if server, err := mail.ParseSMTP(c.SMTPURL); err == nil {
			smtp = server.String() + " (rest hidden)"
		}
	}
	oidc := make([]string, 0, len(c.OIDC))
	for _, setting := range c.OIDC {
		oidc = append(oidc, providers.Shown(setting))
	}
	return []string{
		"listen: " + c.Listen, "data: " + c.Data, "db: " + db, "base-url: " + c.PublicURL(),
		"tls-listen: " + c.TLSListen, "tls-cert: " + c.TLSCert, "tls-key: " + c.TLSKey,
		"http01-listen: " + c.HTTP01Listen, "session-cookie: " + c.SessionCookie,
		"webhook-allow-cidrs: " + strings.Join(c.WebhookAllowCIDRs, ","),
		"acme-allow-cidrs: " + strings.Join(c.ACMEAllowCIDRs, ","),
		"master-key-file: " + c.masterKeyPath(), "smtp-url: " + smtp,
		"trusted-proxies: " + strings.Join(c.TrustedProxies, ","), "trusted-proxy-header: " + cmp.Or(c.ProxyHeader, string(web.XForwardedFor)),
		"registration: " + cmp.Or(c.Registration, "closed"),
		"quota: " + strings.Join(c.Quota, ","),
		"limits: " + strings.Join(c.Limits, ","), "github: " + providers.Shown(c.GitHub), "weixin: " + providers.Shown(c.Weixin),
		"oidc: " + strings.Join(oidc, " "), "solana: " + cmp.Or(c.Solana, "on"), "provider-allow-cidrs: " + strings.Join(c.ProviderAllowCIDRs, ","),
		"name-policy: " + c.namePolicy(), "claim-directories: " + strings.Join(c.ClaimDirectories, ","),
		"dns-resolvers: " + strings.Join(c.DNSResolvers, ","), "dns-allow-cidrs: " + strings.Join(c.DNSAllowCIDRs, ","),
		"max-connections: " + strconv.Itoa(c.MaxConnections), "log-level: " + c.LogLevel, "log-format: " + c.LogFormat,
	}
}
