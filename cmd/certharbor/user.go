package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"certharbor.dev/certharbor/internal/app"
	"certharbor.dev/certharbor/internal/fault"
	"certharbor.dev/certharbor/internal/identity"
)

func userCommand(environ []string) *cobra.Command {
	cmd := group("user", "Make and look after users", "  certharbor user list\n  certharbor user create --email me@example.org --password-stdin < password.txt",
		userCreate(environ), userList(environ), userApprove(environ), userDisable(environ), userEnable(environ), userSetAdmin(environ), userSetPassword(environ))
	for _, sub := range cmd.Commands() {
		app.OperatorFlags(sub.Flags())
	}
	return cmd
}

// withUsers runs f on the users of the database that the flags name.
func withUsers(cmd *cobra.Command, environ []string, f func(*identity.Service) error) error {
	c, err := app.Load(cmd.Flags(), environ)
	if err != nil {
		return err
	}
	users, done, err := app.Users(cmd.Context(), c)
	if err != nil {
		return err
	}
	defer done()
	return public(f(users))
}

// public leaves out the code that a fault has in the API.
func public(err error) error {
	if f := fault.As(err); f != nil && f.Err == nil {
		return errors.New(f.What)
	}
	return err
}

func userCreate(environ []string) *cobra.Command {
	var user identity.NewUser
	var fromStdin bool
	cmd := &cobra.Command{
		Use:   "create --email E --password-stdin",
		Short: "Make an active user and print the id",
		Example: `  echo 'Correct-Horse-7-Battery' | certharbor user create --email me@example.org --admin --password-stdin
  certharbor user create --email me@example.org --password-stdin < password.txt`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if user.Password, err = readPassword(cmd, fromStdin); err != nil {
				return err
			}
			return withUsers(cmd, environ, func(users *identity.Service) error {
				id, err := users.CreateUser(cmd.Context(), user)
				if err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), id)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&user.Email, "email", "", "e-mail `address`, with which the user signs in")
	cmd.Flags().StringVar(&user.Name, "name", "", "user `name`, 3 to 64 of A-Z a-z 0-9 . _ -")
	cmd.Flags().BoolVar(&user.Admin, "admin", false, "make an administrator")
	passwordFlag(cmd, &fromStdin)
	_ = cmd.MarkFlagRequired("email") // fails only for a flag that does not exist
	return cmd
}

func passwordFlag(cmd *cobra.Command, fromStdin *bool) {
	cmd.Flags().BoolVar(fromStdin, "password-stdin", false, "read the password from standard input, one line")
}

// readPassword takes passwords from standard input alone: arguments and
// variables are seen by others on the machine.
func readPassword(cmd *cobra.Command, fromStdin bool) (string, error) {
	if !fromStdin {
		return "", errors.New("give the password on standard input: add --password-stdin, see --help for an example")
	}
	line, err := bufio.NewReader(io.LimitReader(cmd.InOrStdin(), 4096)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read password: %w", err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}

func userList(environ []string) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List users", Example: "  certharbor user list", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withUsers(cmd, environ, func(users *identity.Service) error {
				w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 4, 2, ' ', 0)
				fmt.Fprintln(w, "ID\tE-MAIL\tNAME\tSTATUS\tROLES")
				for after := int64(0); ; {
					page, err := users.ListUsers(cmd.Context(), after, 1000)
					if err != nil {
						return err
					}
					for _, u := range page {
						fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", u.ID, u.Email, u.Name, u.Status, strings.Join(u.Roles, ","))
						after = u.ID
					}
					if len(page) < 1000 {
						return w.Flush()
					}
				}
			})
		},
	}
}

func userApprove(environ []string) *cobra.Command {
	return &cobra.Command{
		Use: "approve USER", Short: "Let in a user who waits for it",
		Long:    "Let in a user, named by id or e-mail address, who has the status PENDING because registration is by approval. The user is told by mail.",
		Example: "  certharbor user approve me@example.org", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withUsers(cmd, environ, func(users *identity.Service) error {
				u, err := users.FindUser(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return users.Approve(cmd.Context(), u.ID)
			})
		},
	}
}

func userDisable(environ []string) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "disable USER", Short: "Disable a user and end all of the user's sessions",
		Long: `Disable a user, named by id or e-mail address. Sessions, API keys and devices stop at
once; renewals go on for 30 days.`,
		Example: "  certharbor user disable me@example.org",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withUsers(cmd, environ, func(users *identity.Service) error {
				u, err := users.FindUser(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				_, err = users.ChangeUser(cmd.Context(), u.ID, identity.UserChange{Disabled: new(true), Force: force})
				return unlessForced(err)
			})
		},
	}
	forceFlag(cmd, &force)
	return cmd
}

func forceFlag(cmd *cobra.Command, force *bool) {
	cmd.Flags().BoolVar(force, "force", false, "also when it is the last administrator")
}

// unlessForced says how the operator gets past the last administrator.
func unlessForced(err error) error {
	if fault.Is(err, fault.CodeConflict) {
		return fmt.Errorf("%s Or add --force", fault.As(err).What)
	}
	return err
}

func userEnable(environ []string) *cobra.Command {
	return &cobra.Command{
		Use: "enable USER", Short: "Let a disabled user sign in again",
		Long: "Let a disabled user, named by id or e-mail address, sign in again.", Example: "  certharbor user enable me@example.org",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withUsers(cmd, environ, func(users *identity.Service) error {
				u, err := users.FindUser(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return users.EnableUser(cmd.Context(), u.ID)
			})
		},
	}
}

func userSetAdmin(environ []string) *cobra.Command {
	var off, force bool
	cmd := &cobra.Command{
		Use: "set-admin USER", Short: "Make a user an administrator, or no longer one",
		Long:    "Give a user, named by id or e-mail address, the role admin, or take it away with --off. The user's sessions end, so that the next sign-in has it.",
		Example: "  certharbor user set-admin me@example.org\n  certharbor user set-admin me@example.org --off",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withUsers(cmd, environ, func(users *identity.Service) error {
				u, err := users.FindUser(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				_, err = users.ChangeUser(cmd.Context(), u.ID, identity.UserChange{Admin: new(!off), Force: force})
				return unlessForced(err)
			})
		},
	}
	cmd.Flags().BoolVar(&off, "off", false, "take the role away")
	forceFlag(cmd, &force)
	return cmd
}

func userSetPassword(environ []string) *cobra.Command {
	var fromStdin bool
	cmd := &cobra.Command{
		Use: "set-password USER --password-stdin", Short: "Give a user a new password",
		Example: "  certharbor user set-password me@example.org --password-stdin < password.txt",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			password, err := readPassword(cmd, fromStdin)
			if err != nil {
				return err
			}
			return withUsers(cmd, environ, func(users *identity.Service) error {
				u, err := users.FindUser(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return users.SetPassword(cmd.Context(), u.ID, password)
			})
		},
	}
	passwordFlag(cmd, &fromStdin)
	return cmd
}
