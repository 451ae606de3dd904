// Command helm does what helm does with one release of a chart: install, upgrade, rollback, list or
// uninstall, with the kubeconfig of KUBECONFIG. It waits until the release is ready. Releases are
// stored as Secrets.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/loader"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release"
)

const within = time.Minute

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run takes the verb, the namespace, the release, and for install and upgrade the number of
// replicas.
func run(args []string) error {
	if len(args) < 3 {
		return errors.New("expected VERB NAMESPACE RELEASE [REPLICAS]")
	}
	verb, namespace, name := args[0], args[1], args[2]
	settings := cli.New()
	settings.SetNamespace(namespace)
	config := action.NewConfiguration()
	if err := config.Init(settings.RESTClientGetter(), namespace, "secrets"); err != nil {
		return err
	}
	values := map[string]any{}
	if len(args) > 3 {
		replicas, err := strconv.Atoi(args[3])
		if err != nil {
			return err
		}
		values["replicas"] = replicas
	}
	switch verb {
	case "install":
		chart, err := loader.LoadDir("chart")
		if err != nil {
			return err
		}
		a := action.NewInstall(config)
		a.ReleaseName, a.Namespace, a.CreateNamespace = name, namespace, true
		a.WaitStrategy, a.Timeout = kube.StatusWatcherStrategy, within
		_, err = a.Run(chart, values)
		return err
	case "upgrade":
		chart, err := loader.LoadDir("chart")
		if err != nil {
			return err
		}
		a := action.NewUpgrade(config)
		a.Namespace, a.WaitStrategy, a.Timeout = namespace, kube.StatusWatcherStrategy, within
		_, err = a.Run(name, chart, values)
		return err
	case "rollback":
		a := action.NewRollback(config)
		a.Version, a.WaitStrategy, a.Timeout = 1, kube.StatusWatcherStrategy, within
		return a.Run(name)
	case "list":
		return list(config)
	case "uninstall":
		a := action.NewUninstall(config)
		a.WaitStrategy, a.Timeout = kube.StatusWatcherStrategy, within
		_, err := a.Run(name)
		return err
	}
	return fmt.Errorf("unknown verb %q", verb)
}

// list prints each release with its revision and status.
func list(config *action.Configuration) error {
	releases, err := action.NewList(config).Run()
	if err != nil {
		return err
	}
	for _, r := range releases {
		a, err := release.NewAccessor(r)
		if err != nil {
			return err
		}
		fmt.Println(a.Name(), a.Version(), a.Status())
	}
	return nil
}
