package generate

import (
	"fmt"
	"strings"

	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/capacity"
	"routekeeper.dev/routekeeper/internal/finding"
)

// Blueprint describes a new cluster to write: what cluster create makes, and optionally a keeper.
type Blueprint struct {
	// Cluster is complete.
	Cluster build.Cluster
	// Provider is the major version of the azurerm provider, 4 or 5; Bicep and ARM JSON ignore it.
	Provider int
	// Host is what runs the keeper, "" for no keeper.
	Host Host
}

// Host is what a keeper runs on.
type Host string

// The hosts. HostAKS is the cluster itself.
const (
	HostAKS           Host = "aks"
	HostContainerApps Host = "container-apps"
)

// Hosts returns all of them.
func Hosts() []Host { return []Host{HostAKS, HostContainerApps} }

// check refuses blueprints that cannot be written.
func (b Blueprint) check() error {
	switch {
	case b.Provider != 4 && b.Provider != 5:
		return unknownProvider(b.Provider)
	case b.Host != "" && b.Host != HostAKS && b.Host != HostContainerApps:
		return fmt.Errorf("unknown host %q, expected %s or %s", b.Host, HostAKS, HostContainerApps)
	case b.Host != "" && b.Cluster.Blueprint != capacity.Kubenet:
		return fmt.Errorf("a host for the keeper: %s has no pod routes to keep in sync, expected "+
			"kubenet", b.Cluster.Blueprint)
	}
	return nil
}

// steps returns the nodes of the cluster, after a check.
func (b Blueprint) steps() (*steps, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	return newSteps(b.Cluster)
}

// deployment returns the content of the Bicep and the ARM JSON.
func (b Blueprint) deployment(deploy string) (*deployment, error) {
	s, err := b.steps()
	if err != nil {
		return nil, err
	}
	s.head = b.head(deploy)
	s.keep(b.Host)
	return s.deployment, nil
}

// head says what the code is, and how to deploy it.
func (b Blueprint) head(deploy string) []string {
	c := b.Cluster
	line := func(indent string, command finding.CommandLine, end string) string {
		return indent + command.String() + end
	}
	return append([]string{
		fmt.Sprintf("The AKS cluster %s, blueprint %s, with its network: what routekeeper "+
			"cluster create makes.", c.Name, c.Blueprint),
		"Written by routekeeper iac generate.", "",
		line("  ", finding.Command("az group create --subscription %s --name %s", c.Subscription,
			c.Group), " \\"),
		line("    ", finding.Command("--location %s --tags %s=%s", c.Location, build.OwnerTag,
			c.Owner()), ""),
		line("  ", finding.Command("az deployment group create --subscription %s", c.Subscription),
			" \\"),
		line("    ", finding.Command("--resource-group %s", c.Group), " --template-file "+deploy+
			b.arguments()),
	}, b.about()...)
}

// about says what the code does with an existing network.
func (b Blueprint) about() []string {
	if b.Cluster.Existing == nil {
		return nil
	}
	about := []string{"",
		fmt.Sprintf("The network %s exists, as routekeeper read it. The code:", b.Cluster.VNetID())}
	changes := b.Changes()
	if len(changes) == 0 {
		changes = []string{"changes nothing in it, and assigns roles on what the cluster uses"}
	}
	for _, change := range changes {
		about = append(about, "  "+change)
	}
	return about
}

// arguments returns the parameters that a deployment needs.
func (b Blueprint) arguments() string {
	switch b.Host {
	case HostAKS:
		return " --parameters image=IMAGE"
	case HostContainerApps:
		return " --parameters image=IMAGE eventSecret=$(openssl rand -hex 16)"
	}
	return ""
}

// Bicep writes the blueprint as Bicep.
func (b Blueprint) Bicep() ([]Output, error) {
	d, err := b.deployment("main.bicep")
	if err != nil {
		return nil, err
	}
	d.head = append(d.head, strings.Split("\nBicep 0.38.3 or newer, for onlyIfNotExists.", "\n")...)
	return d.bicep(), nil
}

// ARM writes the blueprint as an ARM template.
func (b Blueprint) ARM() ([]Output, error) {
	d, err := b.deployment("main.json")
	if err != nil {
		return nil, err
	}
	return d.arm(), nil
}
