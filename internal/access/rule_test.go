package access_test

import (
	"testing"
	"time"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/fault"
)

func key(grants ...access.Grant) *access.Caller {
	return &access.Caller{Kind: access.KindKey, UserID: 1, Grants: grants}
}

func grant(object string, actions ...string) access.Grant {
	return access.Grant{Scope: "certificates", Object: object, Actions: actions}
}

func TestAdmit(t *testing.T) {
	t.Parallel()
	read := access.Session().OrKey("certificates", "read")
	export := access.Session().OrKey("certificates", "read", "issue").On("certificate_id")
	now := func() time.Time { return time.UnixMilli(1_000_000_000) }
	person := func(acr string, age time.Duration, roles ...string) *access.Caller {
		return &access.Caller{Kind: access.KindSession, UserID: 1, Roles: roles, ACR: acr, AuthTime: now().Add(-age).UnixMilli()}
	}
	change := access.Admin().Fresh()
	for name, tt := range map[string]struct {
		rule   access.Rule
		caller *access.Caller
		object string
		code   fault.Code // 0: admitted
	}{
		"a person":                             {access.Session(), &access.Caller{Kind: access.KindSession, UserID: 1}, "", 0},
		"no administrator":                     {access.Admin(), person("aal2", 0), "", fault.CodeForbidden},
		"another role":                         {access.Admin(), person("aal2", 0, "administrator"), "", fault.CodeForbidden},
		"an administrator":                     {access.Admin(), person("aal1", 24*time.Hour, "admin"), "", 0},
		"a key where administrators are taken": {access.Admin(), key(grant("*", "read")), "", fault.CodeForbidden},
		"a change with a fresh passkey":        {change, person("aal2", 15*time.Minute, "admin"), "", 0},
		"a change with a stale passkey":        {change, person("aal2", 15*time.Minute+time.Millisecond, "admin"), "", fault.CodeStepUpRequired},
		"a change with a fresh password":       {change, person("aal1", 0, "admin"), "", fault.CodeStepUpRequired},
		"a change by no administrator":         {change, person("aal2", 0), "", fault.CodeForbidden},
		"a change by a key":                    {change, key(grant("*", "read")), "", fault.CodeForbidden},
		"a key where none is taken":            {access.Session(), key(grant("*", "read")), "", fault.CodeForbidden},
		"a key without grants":                 {read, key(), "", fault.CodeForbidden},
		"another scope":                        {read, key(access.Grant{Scope: "devices", Object: "*", Actions: []string{"read"}}), "", fault.CodeForbidden},
		"another action":                       {read, key(grant("*", "write")), "", fault.CodeForbidden},
		"all objects":                          {read, key(grant("*", "read")), "", 0},
		"a list, for one object":               {read, key(grant("5", "read")), "", 0},
		"its object":                           {export, key(grant("5", "read", "issue")), "5", 0},
		"another object":                       {export, key(grant("5", "read", "issue")), "6", fault.CodeNotFound},
		"one of two actions":                   {export, key(grant("5", "read")), "5", fault.CodeForbidden},
		"the actions in two entries":           {export, key(grant("5", "read"), grant("5", "issue")), "5", 0},
		"the actions for two objects":          {export, key(grant("5", "read"), grant("6", "issue")), "5", fault.CodeNotFound},
		"one action for all, the other for it": {export, key(grant("*", "read"), grant("5", "issue")), "5", 0},
		"an object that is no id":              {export, key(grant("5", "read", "issue")), "five", fault.CodeNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tt.rule.Admit(tt.caller, tt.object, now)
			if tt.code == 0 && err != nil || tt.code != 0 && !fault.Is(err, tt.code) {
				t.Errorf("%v, want code %d", err, tt.code)
			}
		})
	}
}

func TestNoun(t *testing.T) {
	t.Parallel()
	for parameter, noun := range map[string]string{"acme_account_id": "acme account", "certificate_id": "certificate", "file": "file"} {
		if got := access.Noun(parameter); got != noun {
			t.Errorf("%s is a %q", parameter, got)
		}
	}
}
