package kube

import (
	"fmt"
	"os"
	"slices"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"routekeeper.dev/routekeeper/internal/finding"
)

// trusted refuses a kubeconfig from elsewhere that would run a program here, or send a file from
// here to its server. The user's own kubeconfigs are kubectl's: who can write them can already run
// programs as the user.
func trusted(o Options, rules *clientcmd.ClientConfigLoadingRules, known *api.Config,
	context string) error {
	if o.Trusted || o.Kubeconfig == "" || slices.ContainsFunc(rules.Precedence,
		func(own string) bool { return sameFile(own, o.Kubeconfig) }) {
		return nil
	}
	user := known.AuthInfos[known.Contexts[context].AuthInfo]
	switch {
	case user == nil:
		return nil
	case user.Exec != nil:
		return fmt.Errorf("kubeconfig %s logs in by running the program %s: check the file, and "+
			"add --trust-kubeconfig", finding.Show(o.Kubeconfig), finding.Show(user.Exec.Command))
	case user.TokenFile != "":
		return fmt.Errorf("kubeconfig %s sends the content of %s to its server: check the file, "+
			"and add --trust-kubeconfig", finding.Show(o.Kubeconfig), finding.Show(user.TokenFile))
	}
	return nil
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
