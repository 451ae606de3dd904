package controller

import (
	"fmt"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"routekeeper.dev/routekeeper/internal/input"
)

// API is a way to a Kubernetes API server.
type API struct {
	Config *rest.Config
	// Namespace is the pod's, or the one of the kubeconfig's context.
	Namespace string
	// Pod is set if it is the service account of the pod that the program runs in.
	Pod bool
}

// serviceAccount is where a pod finds its namespace.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Reach finds the API server: by a kubeconfig or a context where one is named, otherwise by the
// pod's service account, otherwise by kubectl's kubeconfig.
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
