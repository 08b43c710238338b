package ratelimit

import "strconv"

// Rule is one limit of the server. They are all declared here, so that a test
// can go through them.
type Rule uint8

// The rules. A known browser is one that has signed in to the account before.
const (
	_                        Rule = iota
	PasswordsAtAddress            // wrong passwords of an account from one address
	PasswordsOfAccount            // wrong passwords of an account from everywhere
	PasswordsFromAddress          // wrong passwords of all accounts from one address
	PasswordsFromKnown            // wrong passwords of an account from a known browser
	CodesFromAddress              // wrong codes of mails, and setup tokens, from one address
	RegistrationsAtAddress        // of one mail address from one address
	RegistrationsOfAccount        // of one mail address from everywhere
	RegistrationsFromAddress      // new accounts from one address, by whatever door
	ResetsAtAddress               // of an account from one address
	ResetsOfAccount               // of an account from everywhere
	ResetsFromAddress             // of all accounts from one address
	ResetsFromKnown               // of an account from a known browser
	ApprovalLetters               // to administrators
	ChallengesFromAddress         // of passkeys, for strangers
	ChallengesOfUser              // of passkeys, for a user
	AttemptsFromAddress           // of sign-ins through providers
	AttemptsOfUser                // of bindings to providers
	DeviceCodesFromAddress        // wrong codes of devices
	DeviceStartsFromAddress       // device logins that begin
	RefreshesAgain                // of a device, with a token that was answered before
	KeysOfDevice                  // other keys of a known device, which wait for its owner
	FailuresOfDevice              // that it reports of its installs
	NameChecksOfUser              // look-ups of records that a user asks for
	IssuesOfUser                  // attempts to issue that a user starts
	WebhookTriesOfUser            // tests and redeliveries
	RegistersOfUser               // of ACME accounts by hand
	NewAccountsOfUser             // at one public authority
	pastLastRule
)

// name begins the buckets, so it stays as it is.
func (r Rule) name() string {
	return [pastLastRule]string{
		PasswordsAtAddress: "login.account-address", PasswordsOfAccount: "login.account-total", PasswordsFromAddress: "login.address",
		PasswordsFromKnown: "login.known", CodesFromAddress: "code.address",
		RegistrationsAtAddress: "register.account-address", RegistrationsOfAccount: "register.account-total", RegistrationsFromAddress: "register.address",
		ResetsAtAddress: "reset.account-address", ResetsOfAccount: "reset.account-total", ResetsFromAddress: "reset.address", ResetsFromKnown: "reset.known",
		ApprovalLetters: "approval.letter", ChallengesFromAddress: "passkey.challenge.address", ChallengesOfUser: "passkey.challenge.user",
		AttemptsFromAddress: "provider.attempt.address", AttemptsOfUser: "provider.attempt.user",
		DeviceCodesFromAddress: "devices.code", DeviceStartsFromAddress: "devices.start", RefreshesAgain: "devices.refresh-again",
		KeysOfDevice: "devices.newkey", FailuresOfDevice: "devices.failure", NameChecksOfUser: "names.checks",
		IssuesOfUser: "issue.user", WebhookTriesOfUser: "webhook.tries", RegistersOfUser: "acme.register", NewAccountsOfUser: "acme.accounts",
	}[r]
}

// Rules are all rules of the server.
func Rules() []Rule {
	rules := make([]Rule, 0, pastLastRule-1)
	for r := Rule(1); r < pastLastRule; r++ {
		rules = append(rules, r)
	}
	return rules
}

// String is the rule's name.
func (r Rule) String() string {
	if r == 0 || r >= pastLastRule {
		return "rule " + strconv.Itoa(int(r))
	}
	return r.name()
}
