package identity

import (
	"context"
	"net/http"

	"certharbor.dev/certharbor/internal/web"
)

// generalInput leaves to the action which of the members it needs.
type generalInput struct {
	Body struct {
		_                  struct{} `json:"-" additionalProperties:"true"` // agents may be newer
		Action             string   `json:"action" enum:"login,register,activate-user,request-reset-password,reset-password" doc:"What to do."`
		Email              string   `json:"email,omitempty" doc:"The e-mail address of the account."`
		Password           string   `json:"password,omitempty" doc:"login, register: the password."`
		Name               string   `json:"name,omitempty" doc:"register: a user name, 3 to 64 of A-Z a-z 0-9 . _ -"`
		CountryOfResidence string   `json:"country_of_residence,omitempty" doc:"register: two letters (ISO 3166)."`
		VerifyCode         string   `json:"verify_code,omitempty" doc:"activate-user, reset-password: the 6 digits of the mail."`
		NewPassword        string   `json:"new_password,omitempty" doc:"reset-password: the password from now on."`
	}
}

// generalAnswer has the members of the action.
type generalAnswer struct {
	User   *loginUser `json:"user,omitempty" doc:"login"`
	To     string     `json:"to,omitempty" doc:"login: where the browser should go."`
	Email  string     `json:"email,omitempty" doc:"Other actions: the address as it is kept."`
	Status string     `json:"status,omitempty" doc:"Other actions: what has been done."`
}

type loginUser struct {
	ID    int64    `json:"id"`
	Email string   `json:"email"`
	Roles []string `json:"roles"`
}

func (s *Service) postGeneral(ctx context.Context, in *generalInput) (*web.Reply[generalAnswer], error) {
	b := &in.Body
	var email, status string
	var cookies []*http.Cookie
	var err error
	switch b.Action {
	case "register":
		status = "waiting_for_verification"
		email, err = s.SignUp(ctx, Registration{Email: b.Email, Password: b.Password, Name: b.Name, CountryOfResidence: b.CountryOfResidence})
	case "activate-user":
		status = "activation_successful"
		email, err = s.Activate(ctx, b.Email, b.VerifyCode)
	case "request-reset-password":
		status = "reset_code_sent"
		email, err = s.RequestReset(ctx, b.Email)
	case "reset-password":
		status = "password_reset_success"
		email, cookies, err = s.ResetPassword(ctx, b.Email, b.VerifyCode, b.NewPassword)
	default:
		signedIn, err := s.Login(ctx, b.Email, b.Password)
		if err != nil {
			return nil, err
		}
		return signedIn.reply(), nil
	}
	if err != nil {
		return nil, err
	}
	return &web.Reply[generalAnswer]{Cookies: cookies, Data: generalAnswer{Email: email, Status: status}}, nil
}

func (in *SignedIn) reply() *web.Reply[generalAnswer] {
	user := in.User
	return &web.Reply[generalAnswer]{
		Cookies: in.Cookies,
		Data:    generalAnswer{User: &loginUser{ID: user.ID, Email: user.Email, Roles: user.Roles}, To: landing},
	}
}

type nameInput struct {
	Name string `query:"name" doc:"A user name. Without it the answer says who can register."`
}

type nameAnswer struct {
	Available    *bool            `json:"available,omitempty" doc:"With a name: whether it is free."`
	Registration RegistrationMode `json:"registration,omitempty" enum:"closed,approval,open" doc:"Without a name: who can make an account."`
}

func (s *Service) getGeneral(ctx context.Context, in *nameInput) (nameAnswer, error) {
	if in.Name == "" {
		return nameAnswer{Registration: s.registration}, nil
	}
	available, err := s.NameAvailable(ctx, in.Name)
	return nameAnswer{Available: &available}, err
}

func (s *Service) postSetup(ctx context.Context, in *setupInput) (*web.Reply[generalAnswer], error) {
	signedIn, err := s.Setup(ctx, in.Body.Token, NewUser{Email: in.Body.Email, Password: in.Body.Password, Name: in.Body.Name})
	if err != nil {
		return nil, err
	}
	return signedIn.reply(), nil
}
