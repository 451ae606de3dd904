package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"k8s.io/client-go/tools/clientcmd"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Connect returns an error with ErrNoLogin if the program that logs in to a cluster is not
// installed.
var ErrNoLogin = errors.New("not installed")

const kubelogin = "kubelogin"

// Connect finds the API server of o.Cluster. It uses the kubeconfig that o names; otherwise
// kubectl's if a context in it is for the cluster; otherwise the pod's service account inside the
// cluster, or the credentials that AKS gives.
func Connect(ctx context.Context, o Options,
	credentials func(context.Context, arm.ID) ([]byte, error)) (*Client, error) {
	client, err := Load(o)
	switch {
	case o.Cluster.Stopped:
		return nil, err
	case err == nil && client.context == inCluster && o.Kubeconfig == "":
		if _, _, err := client.ListNodes(ctx); err == nil {
			return client, nil
		}
	case err == nil:
		return client, client.canLogIn()
	case o.Kubeconfig != "":
		return nil, err
	}
	raw, err := credentials(ctx, o.Cluster.ID)
	if err != nil {
		return nil, fmt.Errorf("AKS gives no credentials for cluster %s: %w",
			o.Cluster.ID.Short(), err)
	}
	if client, err = fromAKS(raw, o); err != nil {
		return nil, err
	}
	return client, client.canLogIn()
}

// fromAKS uses a kubeconfig that AKS gave. The only program that the kubeconfig may run is
// kubelogin. AKS sets kubelogin up to ask a person; fromAKS makes it use the identity of this
// process.
func fromAKS(raw []byte, o Options) (*Client, error) {
	known, err := clientcmd.Load(raw)
	if err != nil || known.Contexts[known.CurrentContext] == nil {
		return nil, fmt.Errorf("the credentials of AKS for cluster %s are not a kubeconfig",
			o.Cluster.ID.Short())
	}
	for _, cluster := range known.Clusters {
		if cluster.CertificateAuthority != "" {
			return nil, namesFile(o, cluster.CertificateAuthority)
		}
	}
	for _, user := range known.AuthInfos {
		if file := cmp.Or(user.TokenFile, user.ClientCertificate, user.ClientKey); file != "" {
			return nil, namesFile(o, file)
		}
		if user.Exec == nil {
			continue
		}
		if filepath.Base(user.Exec.Command) != kubelogin {
			return nil, fmt.Errorf("the credentials of AKS for cluster %s would run %q: only "+
				"kubelogin is allowed", o.Cluster.ID.Short(), user.Exec.Command)
		}
		if i := slices.Index(user.Exec.Args, "devicecode"); i >= 0 {
			user.Exec.Args[i] = loginMethod()
		}
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*known, known.CurrentContext, nil,
		nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("the credentials of AKS for cluster %s: %s", o.Cluster.ID.Short(),
			oneLine(err))
	}
	return newClient(config, known.CurrentContext, o)
}

// namesFile refuses a kubeconfig from AKS that names a file on this machine.
func namesFile(o Options, file string) error {
	return fmt.Errorf("the credentials of AKS for cluster %s name the file %q: only embedded data "+
		"is allowed", o.Cluster.ID.Short(), file)
}

// loginMethod returns how kubelogin logs in as the identity of this process.
func loginMethod() string {
	switch {
	case os.Getenv("AAD_LOGIN_METHOD") != "":
		return os.Getenv("AAD_LOGIN_METHOD")
	case os.Getenv("AZURE_FEDERATED_TOKEN_FILE") != "":
		return "workloadidentity"
	case os.Getenv("AZURE_CLIENT_SECRET") != "":
		return "spn"
	}
	return "azurecli"
}

// canLogIn returns ErrNoLogin if the plugin that logs in is not installed.
func (c *Client) canLogIn() error {
	if c.config.ExecProvider == nil {
		return nil
	}
	if _, err := exec.LookPath(c.config.ExecProvider.Command); err != nil {
		return &explained{fmt.Sprintf("cluster %s takes only logins by %s, which is not "+
			"installed: %s", c.cluster.ID.Short(), c.plugin, c.login()), ErrNoLogin}
	}
	return nil
}
