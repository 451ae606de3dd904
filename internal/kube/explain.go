package kube

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// failure is an unexpected answer.
type failure struct {
	status     int
	message    string // the API server's own
	location   string // of a redirect
	retryAfter time.Duration
	garbage    error // why an answer with status 200 is not a list
}

func (f *failure) Error() string {
	switch {
	case f.garbage != nil:
		return f.garbage.Error()
	case f.message != "":
		return fmt.Sprintf("%d %s", f.status, f.message)
	}
	return fmt.Sprintf("%d %s", f.status, http.StatusText(f.status))
}

// busy reports whether the same call may soon succeed.
func (f *failure) busy() bool {
	return f.status == http.StatusTooManyRequests || f.status >= 500
}

// explained is a failure in one line, with the next step.
type explained struct {
	line  string
	cause error
}

func (e *explained) Error() string { return e.line }
func (e *explained) Unwrap() error { return e.cause }

// refused reports whether the API server knows the caller and refuses to show something.
func refused(err error) bool {
	var f *failure
	return errors.As(err, &f) && f.status == http.StatusForbidden
}

// savedFiles says how to work with saved files if the API is unreachable from here.
const savedFiles = "run this where the API is reachable (for a private cluster, in its network), " +
	"or save the output of \"kubectl get nodes -o json\" and \"kubectl get pods -A -o json\" " +
	"there, and pass the files with --from-nodes and --from-pods"

// explain says in one line what failed when reading a resource, and what to do next.
func (c *Client) explain(resource string, err error) error {
	whose := "the Kubernetes API of context " + c.context
	say := func(format string, args ...any) error {
		return &explained{whose + " " + fmt.Sprintf(format, args...), err}
	}
	var f *failure
	switch {
	case errors.Is(err, context.Canceled): // the caller stopped waiting
		return err
	case !errors.As(err, &f):
		return c.unanswered(whose, err)
	}
	switch {
	case f.garbage != nil:
		return say("at %s did not answer with a list of %s: %s", c.server, resource, oneLine(f))
	case f.location != "":
		return say("at %s redirects to %s: the server there is not a Kubernetes API", c.server,
			f.location)
	case f.status == http.StatusUnauthorized:
		return say("rejects the login (%s); log in again: %s", oneLine(f), c.login())
	case f.status == http.StatusForbidden:
		return say("does not show %s (%s): the verb list on the resource %[1]s is missing; %[3]s",
			resource, oneLine(f), c.grant(resource, f.message))
	case f.status == http.StatusNotFound:
		return say("was not found at %s (%s): check the server in the kubeconfig", c.server,
			oneLine(f))
	case f.status == http.StatusGone:
		return say("expires its list of %s before it can be read to its end (%s): try again",
			resource,
			oneLine(f))
	}
	return say("at %s fails (%s): try again in a minute", c.server, oneLine(f))
}

// unanswered says why there is no answer.
func (c *Client) unanswered(whose string, err error) error {
	cause := err
	if call, ok := errors.AsType[*url.Error](err); ok { // the message already has the address
		cause = call.Err
	}
	reason := oneLine(cause)
	line := fmt.Sprintf("%s does not answer at %s (%s): %s", whose, c.server, reason, savedFiles)
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	switch {
	case strings.HasPrefix(reason, "getting credentials:"): // how client-go reports a failed plugin
		// omit the explanation of plugins
		reason, _, _ = strings.Cut(strings.TrimPrefix(reason, "getting credentials: "),
			" It looks like")
		line = fmt.Sprintf("%s: %s could not log in (%s): %s", whose, c.plugin, reason, c.login())
	case errors.As(err, &authority), errors.As(err, &name):
		line = fmt.Sprintf("%s at %s presents a certificate that the kubeconfig does not trust "+
			"(%s): there is a proxy in between, or the kubeconfig is older than the cluster's "+
			"certificates: %s", whose, c.server, reason, getCredentials(c.cluster))
	}
	return &explained{line, err}
}

// login says how to log in again.
func (c *Client) login() string {
	switch c.plugin {
	case "":
		return getCredentials(c.cluster)
	case "kubelogin":
		return "az login, or kubelogin remove-tokens; az aks install-cli installs kubelogin"
	}
	return "see the documentation of " + c.plugin
}

// asker finds the user that the API server named, if the name is safe in a command.
var asker = lazy.Regexp(`User "([\w@.:/-]+)"`)

// grant says how to let the user that the API server named list a resource. The API server says
// whether Azure roles apply inside the cluster. The smallest built-in role that shows nodes is the
// administrator's.
func (c *Client) grant(resource, message string) string {
	user := "NAME"
	if m := asker().FindStringSubmatch(message); m != nil {
		user = m[1]
	}
	if strings.Contains(message, "in Azure") {
		role, scope := "Azure Kubernetes Service RBAC Reader", "CLUSTER-ID"
		if resource == "nodes" {
			role = "Azure Kubernetes Service RBAC Cluster Admin"
		}
		if c.cluster != nil {
			scope = string(c.cluster.ID)
		}
		return fmt.Sprintf("assign a role with the data action "+
			"Microsoft.ContainerService/managedClusters/%s/read, a custom one or: %s", resource,
			finding.Command("az role assignment create --assignee %s --role %s --scope %s", user,
				role, scope))
	}
	return "ask a cluster administrator to run: " + finding.Command("kubectl create clusterrole "+
		"routekeeper --verb=list --resource=nodes,pods && kubectl create clusterrolebinding "+
		"routekeeper --clusterrole=routekeeper --user=%s", user).String()
}

// oneLine returns an error on one line, and not too long.
func oneLine(err error) string {
	const most = 600
	line := strings.Join(strings.Fields(err.Error()), " ")
	if len(line) > most {
		line = strings.ToValidUTF8(line[:most], "") + " …"
	}
	return line
}
