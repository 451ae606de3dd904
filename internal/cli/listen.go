package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/input"
	"routekeeper.dev/routekeeper/internal/serve"
)

// listenOptions are the flags of run --listen.
type listenOptions struct {
	address, secretFile      string
	tenant                   string
	audiences                []string
	maySend, mayLook, mayAct []string
	usersFile                string
	certFile, keyFile        string
	actions                  bool
}

func (o *listenOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.address, "listen", "", "serve pages, events, metrics and health at this "+
		"`address`, such as 127.0.0.1:8080 or :8443")
	f.StringVar(&o.secretFile, "event-secret-file", "", "`file` with the secret that "+
		"callers append to /events/ or send as bearer token")
	f.StringVar(&o.tenant, "auth-tenant", "", "accept tokens of this Entra ID `tenant` (its ID)")
	f.StringArrayVar(&o.audiences, "auth-audience", nil, "`audience` that tokens must have: the "+
		"application ID URI or client ID of the listener's application (repeatable)")
	f.StringArrayVar(&o.maySend, "may-send", nil, "`WHO` may send events: app:ID, role:NAME, "+
		"user:NAME or user:* (repeatable)")
	f.StringArrayVar(&o.mayLook, "may-look", nil, "`WHO` may see pages and metrics (repeatable; "+
		"default all of --auth-users-file)")
	f.StringArrayVar(&o.mayAct, "may-act", nil, "`WHO` may look, and use the buttons of "+
		"--allow-actions (repeatable)")
	f.StringVar(&o.usersFile, "auth-users-file", "", "`file` with names and passwords "+
		"as htpasswd -B writes it; read again when it changes")
	f.BoolVar(&o.actions, "allow-actions", false, "show buttons that sync and repair after "+
		"a preview, also during a pause; with --dry-run they only preview")
	f.StringVar(&o.certFile, "tls-cert", "", "certificate `file` (PEM); read again when it changes")
	f.StringVar(&o.keyFile, "tls-key", "", "`file` with the key of the certificate (PEM)")
}

// server returns the options of the listener that flags set, or nil without --listen.
func (o listenOptions) server(ctx context.Context, a *app) (*serve.Options, error) {
	if o.address == "" {
		if o.actions || o.usersFile != "" || o.secretFile != "" || o.tenant != "" ||
			len(o.audiences)+len(o.maySend)+len(o.mayLook)+len(o.mayAct) > 0 ||
			o.certFile != "" || o.keyFile != "" {
			return nil, errors.New("--listen is missing: the flags for callers, actions and " +
				"certificates need it")
		}
		return nil, nil
	}
	if (o.certFile == "") != (o.keyFile == "") {
		return nil, errors.New("--tls-cert and --tls-key: expected both or neither")
	}
	auth := serve.Auth{UsersFile: o.usersFile, SecretFile: o.secretFile, Tenant: o.tenant,
		Audiences: o.audiences}
	tokens, err := o.callers(&auth)
	if err != nil {
		return nil, err
	}
	if o.usersFile != "" {
		if err := serve.CheckUsers(o.usersFile); err != nil {
			return nil, fmt.Errorf("--auth-users-file: %w", unreadAt(o.usersFile, err))
		}
	}
	if o.certFile != "" {
		if err := checkCertificate(o.certFile, o.keyFile); err != nil {
			return nil, err
		}
	}
	if o.secretFile != "" {
		if _, err := serve.ReadSecret(o.secretFile); err != nil {
			return nil, fmt.Errorf("--event-secret-file: %w", unreadAt(o.secretFile, err))
		}
	}
	if o.tenant != "" {
		if len(o.audiences) == 0 {
			return nil, errors.New("--auth-audience is missing: expected the application ID URI " +
				"or the client ID of this listener's application")
		}
		if !tokens {
			return nil, errors.New("--may-send, --may-look or --may-act is missing: expected " +
				"app:ID or role:NAME, because any application of the tenant could call")
		}
		if err := authority(ctx, a, &auth); err != nil {
			return nil, err
		}
	} else if len(o.audiences) > 0 || tokens {
		return nil, errors.New("--auth-tenant is missing: expected the tenant whose tokens to " +
			"accept")
	}
	return &serve.Options{
		Address: o.address, Auth: auth, CertFile: o.certFile, KeyFile: o.keyFile,
	}, nil
}

// checkCertificate says what is wrong with a certificate or its key.
func checkCertificate(certFile, keyFile string) error {
	for flag, file := range map[string]string{"--tls-cert": certFile, "--tls-key": keyFile} {
		if _, err := input.ReadFile(file, input.Small); err != nil {
			return fmt.Errorf("%s: %w", flag, unread(file, err))
		}
	}
	if _, err := tls.LoadX509KeyPair(certFile, keyFile); err != nil {
		return fmt.Errorf("--tls-cert and --tls-key: %s and %s are not a certificate and its key "+
			"in PEM: %w", certFile, keyFile, err)
	}
	return nil
}

// callers sets who may do what, and reports whether some of it needs tokens of Entra ID.
func (o listenOptions) callers(auth *serve.Auth) (tokens bool, err error) {
	users := false
	for _, right := range []struct {
		flag string
		who  []string
		to   *serve.Callers
	}{
		{"--may-send", o.maySend, &auth.Send}, {"--may-look", o.mayLook, &auth.Look},
		{"--may-act", o.mayAct, &auth.Act},
	} {
		for _, who := range right.who {
			if err := right.to.Add(who); err != nil {
				return false, fmt.Errorf("%s: %w", right.flag, err)
			}
		}
		tokens = tokens || len(right.to.Apps)+len(right.to.Roles) > 0
		users = users || len(right.to.Users) > 0
	}
	switch {
	case users && o.usersFile == "":
		return tokens, errors.New("--auth-users-file is missing: user:NAME is a name in it")
	case o.actions && auth.Act.Empty() && (o.usersFile != "" || o.tenant != ""):
		return tokens, errors.New("--may-act is missing: expected who may use the buttons of " +
			"--allow-actions, such as user:ada")
	case !auth.Act.Empty() && !o.actions:
		return tokens, errors.New("--allow-actions is missing: --may-act is about its buttons")
	}
	return tokens, nil
}

// authority sets the address of Entra ID, and the prefix of the issuers of version 1.0 tokens.
func authority(ctx context.Context, a *app, auth *serve.Auth) error {
	auth.LegacyIssuer = "https://sts.windows.net/"
	if a.emulatorDir != "" {
		info, err := findLocal(ctx, a.emulatorDir)
		if err != nil {
			return err
		}
		auth.Authority = info.HTTPS
		auth.Client, err = info.Client()
		return err
	}
	if a.cloudName == "china" {
		auth.LegacyIssuer = "https://sts.chinacloudapi.cn/"
	}
	auth.Authority = clouds[a.cloudName].ActiveDirectoryAuthorityHost
	return nil
}
