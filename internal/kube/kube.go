// Package kube is the only access to the Kubernetes API. It finds the context for a cluster in
// kubeconfigs, and reads the cluster's nodes and pods. It must not write anything except what
// package hello deploys.
//
// client-go handles kubeconfigs, logins (client certificates, tokens, exec plugins such as
// kubelogin) and TLS. Nodes and pods are plain paged GETs that package inventory decodes, so
// neither the typed clients nor their models are linked.
package kube

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/input"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Options select an API server.
type Options struct {
	// Kubeconfig is a file. "": kubectl's rules: the files in $KUBECONFIG, ~/.kube/config, or the
	// service account inside a pod.
	Kubeconfig string
	// Trusted is set if Kubeconfig may run its login plugin and send the token file that it names.
	// A file that kubectl's rules find always may.
	Trusted bool
	// Context is the name of a context. "": the one for Cluster or, if there is none, the current
	// one.
	Context string
	// Cluster is the expected cluster. Data of another cluster is never used as its own. Nil:
	// whatever cluster the context is for.
	Cluster *inventory.Cluster
	// Timeout limits one answer, without the login by a plugin. 0 means a minute.
	Timeout time.Duration
}

// Load returns an error with ErrNoContext if no kubeconfig has a context for the cluster, and the
// caller named none.
var ErrNoContext = errors.New("no kubeconfig context is for this cluster")

// inCluster is the context of a pod's own service account.
const inCluster = "in-cluster"

// Client reads from one API server.
type Client struct {
	cluster *inventory.Cluster // the expected one, or nil
	// proven is set if the cluster's own document names this address. Otherwise the nodes must
	// prove it.
	proven  bool
	context string
	plugin  string // the exec plugin that logs in, or ""
	server  *url.URL
	http    *http.Client
	watch   *http.Client  // for answers that last as long as watchFor
	config  *rest.Config  // for connections that are not HTTP's own
	pause   time.Duration // before a call is retried
	// askEvery and askFor are the constants of the same names, except in tests.
	askEvery, askFor time.Duration
}

// Context returns the name of the kubeconfig's context, "in-cluster" for a pod's own service
// account.
func (c *Client) Context() string { return c.context }

// Server returns the URL of the API server.
func (c *Client) Server() string { return c.server.String() }

// client-go's log is silent from the start, because its errors say the same. A program that wants
// it sets another logger before it uses client-go: nothing may set it later.
func init() { klog.SetSlogLogger(slog.New(slog.DiscardHandler)) }

// Load finds the API server. It reads files and makes no calls.
func Load(o Options) (*Client, error) {
	if o.Cluster != nil && o.Cluster.Stopped {
		return nil, fmt.Errorf("cluster %s is stopped: start its Kubernetes API with: %s",
			o.Cluster.ID.Name(), finding.Command("az aks start %s", named(o.Cluster.ID)))
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	rules.Warner = func(error) {}
	if err := input.CheckFiles(input.Text, rules.GetLoadingPrecedence()...); err != nil {
		return nil, unreadable(o.Kubeconfig, err)
	}
	known, err := rules.Load()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("kubeconfig %s does not exist: %s", o.Kubeconfig,
			getCredentials(o.Cluster))
	case err != nil:
		return nil, unreadable(o.Kubeconfig, err)
	}
	var config *rest.Config
	context := inCluster
	if len(known.Contexts) == 0 && o.Kubeconfig == "" && o.Context == "" &&
		os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		config, err = rest.InClusterConfig()
	} else {
		if context, err = choose(known, o); err != nil {
			return nil, err
		}
		if err := trusted(o, rules, known, context); err != nil {
			return nil, err
		}
		config, err = clientcmd.NewNonInteractiveClientConfig(*known, context,
			&clientcmd.ConfigOverrides{}, rules).ClientConfig()
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig context %s: %s", context, oneLine(err))
	}
	return newClient(config, context, o)
}

// newClient makes the client for an API server.
func newClient(config *rest.Config, context string, o Options) (*Client, error) {
	c := &Client{cluster: o.Cluster, context: context, pause: time.Second, askEvery: askEvery,
		askFor: askFor}
	if config.ExecProvider != nil {
		c.plugin = filepath.Base(config.ExecProvider.Command)
	}
	var err error
	if c.server, _, err = rest.DefaultServerUrlFor(config); err != nil {
		return nil, fmt.Errorf("kubeconfig context %s: server %q: %s", c.context, config.Host,
			oneLine(err))
	}
	c.proven = c.cluster == nil || c.cluster.Serves(c.server.Hostname()) ||
		c.cluster.Serves(config.TLSClientConfig.ServerName)
	return c, c.connect(config, cmp.Or(o.Timeout, time.Minute))
}

// unreadable says why a kubeconfig cannot be read. The YAML library's error shows Go types.
func unreadable(name string, err error) error {
	if info, unseen := os.Stat(name); name != "" && unseen == nil {
		if info.IsDir() {
			return fmt.Errorf("kubeconfig %s is a folder, expected a file", name)
		}
		if path, ok := errors.AsType[*fs.PathError](err); ok {
			return fmt.Errorf("kubeconfig %s cannot be read: %w", name, path.Err)
		}
		return fmt.Errorf("kubeconfig %s is not a kubeconfig: expected YAML of kind Config", name)
	}
	return fmt.Errorf("kubeconfig: %s", oneLine(err))
}

// connect creates the HTTP client. The time limit applies to the connection and the answer, but not
// to the login: a person who types a code into a browser takes longer.
func (c *Client) connect(config *rest.Config, limit time.Duration) error {
	config = rest.CopyConfig(config)
	config.UserAgent = "routekeeper"
	c.config = rest.CopyConfig(config)
	config.Dial = (&net.Dialer{Timeout: min(limit, 10*time.Second), KeepAlive: 30 * time.Second}).
		DialContext
	var err error
	if c.http, err = c.client(config, limit); err != nil {
		return err
	}
	c.watch, err = c.client(config, watchFor+limit)
	return err
}

// client creates an HTTP client whose answers end within the limit.
func (c *Client) client(config *rest.Config, limit time.Duration) (*http.Client, error) {
	config = rest.CopyConfig(config)
	// the login's wrapper is outside this one, so the limit does not apply to the login
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return timed{rt, limit} })
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig context %s: %s", c.context, oneLine(err))
	}
	// A redirect leads to a login page elsewhere, which must not get our credentials.
	return &http.Client{Transport: client.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}}, nil
}

// choose picks the context: the named one, the cluster's, or the current one.
func choose(known *api.Config, o Options) (string, error) {
	names := slices.Sorted(maps.Keys(known.Contexts))
	if i := slices.Index(names, known.CurrentContext); i > 0 { // the current one comes first
		names = slices.Insert(slices.Delete(names, i, i+1), 0, known.CurrentContext)
	}
	where := strings.Join(filepath.SplitList(os.Getenv(clientcmd.RecommendedConfigPathEnvVar)),
		", ")
	where = "kubeconfig " + cmp.Or(o.Kubeconfig, where, clientcmd.RecommendedHomeFile)
	switch {
	case o.Context != "" && known.Contexts[o.Context] == nil:
		return "", fmt.Errorf("%s has no context %q%s", where, o.Context, listContexts(names))
	case o.Context != "":
		return o.Context, nil
	case o.Cluster != nil:
		for _, name := range names {
			if slices.ContainsFunc(hosts(known, name), o.Cluster.Serves) {
				return name, nil
			}
		}
		if o.Kubeconfig == "" {
			return "", fmt.Errorf("%w: %s has no context for %s: %s", ErrNoContext, where,
				o.Cluster.ID.Name(), getCredentials(o.Cluster))
		}
		// The user named the context, and a tunnel or proxy has its own address. The nodes will
		// show whose API it is.
	}
	if known.Contexts[known.CurrentContext] == nil {
		return "", fmt.Errorf("%s has no current context: name one with --context%s", where,
			listContexts(names))
	}
	return known.CurrentContext, nil
}

// hosts returns the possible names of a context's API server: the address, and the name that its
// certificate must have.
func hosts(known *api.Config, context string) []string {
	cluster := known.Clusters[known.Contexts[context].Cluster]
	if cluster == nil {
		return nil
	}
	called, err := url.Parse(cluster.Server)
	if err != nil {
		return nil
	}
	return []string{called.Hostname(), cluster.TLSServerName}
}

// listContexts lists the existing contexts.
func listContexts(names []string) string {
	const most = 8
	switch {
	case len(names) == 0:
		return " (it has none)"
	case len(names) > most:
		return fmt.Sprintf(" (it has %s and %d more)", strings.Join(names[:most], ", "),
			len(names)-most)
	}
	return " (it has " + strings.Join(names, ", ") + ")"
}

// getCredentials returns the command that gets a kubeconfig.
func getCredentials(c *inventory.Cluster) string {
	if c == nil {
		return "az aks get-credentials -g GROUP -n NAME --overwrite-existing"
	}
	return finding.Command("az aks get-credentials %s --overwrite-existing", named(c.ID)).String()
}

// named returns az's arguments for a cluster, with the subscription, because names can repeat in
// other subscriptions.
func named(id arm.ID) finding.CommandLine {
	return finding.Command("-g %s -n %s --subscription %s", id.ResourceGroup(), id.Name(),
		id.Subscription())
}
