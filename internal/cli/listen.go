package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/input"
	"routekeeper.dev/routekeeper/internal/serve"
)

// listenOptions are the flags of run --listen.
type listenOptions struct {
	address, secretFile    string
	tenant                 string
	audiences, apps, roles []string
	usersFile              string
	certFile, keyFile      string
	actions                bool
}

func (o *listenOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.address, "listen", "", "serve pages, events, metrics and health at this "+
		"`address`, "+
		"such as 127.0.0.1:8080 or :8443")
	f.StringVar(&o.secretFile, "event-secret-file", "", "`file` with the secret that "+
		"callers append to /events/ or send as bearer token")
	f.StringVar(&o.tenant, "auth-tenant", "", "accept tokens of this Entra ID `tenant` (its ID)")
	f.StringArrayVar(&o.audiences, "auth-audience", nil, "`audience` that tokens must have: the "+
		"application ID URI or client ID of the listener's application (repeatable)")
	f.StringArrayVar(&o.apps, "auth-app", nil, "client `ID` of an application that may call "+
		"(repeatable)")
	f.StringArrayVar(&o.roles, "auth-role", nil, "application `role` whose members may call "+
		"(repeatable)")
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
			len(o.audiences)+len(o.apps)+len(o.roles) > 0 || o.certFile != "" || o.keyFile != "" {
			return nil, errors.New("--listen is missing: the flags for callers, actions and " +
				"certificates need it")
		}
		return nil, nil
	}
	if (o.certFile == "") != (o.keyFile == "") {
		return nil, errors.New("--tls-cert and --tls-key: expected both or neither")
	}
	auth := serve.Auth{UsersFile: o.usersFile, Tenant: o.tenant, Audiences: o.audiences,
		Apps: o.apps, Roles: o.roles}
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
		secret, err := readSecret(o.secretFile)
		if err != nil {
			return nil, fmt.Errorf("--event-secret-file: %w", err)
		}
		auth.Secret = secret
	}
	if o.tenant != "" {
		if len(o.audiences) == 0 {
			return nil, errors.New("--auth-audience is missing: expected the application ID URI " +
				"or the client ID of this listener's application")
		}
		if len(o.apps)+len(o.roles) == 0 {
			return nil, errors.New("--auth-app or --auth-role is missing: without it, any " +
				"application of the tenant could call")
		}
		if err := a.authority(ctx, &auth); err != nil {
			return nil, err
		}
	} else if len(o.audiences)+len(o.apps)+len(o.roles) > 0 {
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

// shortestSecret is long enough that a random secret cannot be guessed.
const shortestSecret = 16

func readSecret(file string) (string, error) {
	raw, err := input.ReadFile(file, input.Small)
	if err != nil {
		return "", unread(file, err)
	}
	secret := string(bytes.TrimSpace(raw))
	switch {
	case len(secret) < shortestSecret:
		return "", fmt.Errorf("the secret in %s is shorter than %d characters", file,
			shortestSecret)
	case strings.Trim(secret,
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~") != "":
		return "", fmt.Errorf("the secret in %s has characters that a URL path cannot hold; "+
			"use letters, digits and -_.~", file)
	}
	return secret, nil
}

// authority sets the address of Entra ID, and the prefix of the issuers of version 1.0 tokens.
func (a *app) authority(ctx context.Context, auth *serve.Auth) error {
	auth.LegacyIssuer = "https://sts.windows.net/"
	if a.emulatorDir != "" {
		info, err := findLocal(ctx, a.emulatorDir)
		if err != nil {
			return err
		}
		auth.Authority = info.HTTPS
		auth.Client, err = localClient(info)
		return err
	}
	if a.cloudName == "china" {
		auth.LegacyIssuer = "https://sts.chinacloudapi.cn/"
	}
	auth.Authority = clouds[a.cloudName].ActiveDirectoryAuthorityHost
	return nil
}
