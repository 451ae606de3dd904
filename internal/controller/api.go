package controller

import (
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"routekeeper.dev/routekeeper/internal/input"
)

// API is a way to a Kubernetes API server.
type API struct {
	Config *rest.Config
	// Namespace is the pod's namespace, or that of the kubeconfig's context.
	Namespace string
	// Pod is set if the API is reached with the service account of the pod that runs the program.
	Pod bool
}

// connection is a client with TCP connections and a limit of calls of its own. client-go shares one
// HTTP/2 connection between clients of one server. A renewal of the lease would wait there behind a
// large list that arrives slowly, and behind all that waits for a connection that is dead.
type connection struct {
	dynamic.Interface
	// drop closes the connections that are not in use. A new one follows: HTTP/2 notices only after
	// 45 seconds that one is dead.
	drop func()
}

// connect makes a connection.
func connect(to *rest.Config) (connection, error) {
	config := dynamic.ConfigFor(to)
	// client-go lets clients share connections, unless they have a Dial function of their own.
	config.Dial = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return connection{}, err
	}
	api, err := dynamic.NewForConfigAndClient(config, client)
	return connection{api, func() { utilnet.CloseIdleConnectionsFor(client.Transport) }}, err
}

// serviceAccount is where a pod finds its namespace.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Reach finds the API server: with the given kubeconfig or context, or else with the pod's service
// account, or else with kubectl's kubeconfig.
func Reach(kubeconfig, context string) (API, error) {
	if kubeconfig == "" && context == "" && os.Getenv("KUBECONFIG") == "" &&
		os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return API{}, err
		}
		namespace, err := os.ReadFile(serviceAccount)
		return API{config, strings.TrimSpace(string(namespace)), true}, err
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	if err := input.CheckFiles(input.Text, rules.GetLoadingPrecedence()...); err != nil {
		return API{}, fmt.Errorf("--kubeconfig: %w", err)
	}
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: context})
	config, err := loaded.ClientConfig()
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return API{}, fmt.Errorf("--kubeconfig: %s", first)
	}
	namespace, _, err := loaded.Namespace()
	return API{config, namespace, false}, err
}
