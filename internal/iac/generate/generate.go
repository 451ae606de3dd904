// Package generate writes infrastructure code: a network for a kubenet cluster whose route tables no later apply strips, the cluster in it, and
// the rights that a keeper needs and no more. In Terraform for two major versions of the azurerm provider, and in Bicep.
//
// It is pure: text in, files out. What it writes is held by tests against the documented schema, and against what the local Azure asks for.
package generate

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/hashicorp/hcl/v2/hclwrite"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Order says what infrastructure code to write: a network with a cluster in it that no redeploy strips, and the keeper's rights.
type Order struct {
	Name, Location string
	// Plugin is kubenet or overlay. An overlay cluster has no pod routes, so there is nothing to keep for it.
	Plugin string
	// Provider is the major version of the azurerm provider, 4 or 5; Bicep has no use for it.
	Provider int
	// Egress is the firewall that 0.0.0.0/0 leads to; zero: the cluster's load balancer.
	Egress netip.Addr
	// Space is the network's address space, Pods the cluster's pod CIDR.
	Space, Pods netip.Prefix
	// Network and Keeper say which halves are wanted.
	Network, Keeper bool
	// Kept are clusters that are there already: the keeper's rights are for them and what their configs name, and nothing is made for the
	// network.
	Kept []Kept
}

// Kept is a cluster with what a config says about it.
type Kept struct {
	Name    string
	Cluster arm.ID
	// Guarded reports whether the associations of its node subnets are put back, Table is what it is then, if the config names it.
	Guarded bool
	Table   arm.ID
	// Subnets are further guarded associations, Targets the tables that are written.
	Subnets []KeptSubnet
	Targets []arm.ID
}

// KeptSubnet is a further subnet whose association is guarded.
type KeptSubnet struct{ Subnet, Table arm.ID }

// Output is a file to write; slashes in its name are folders.
type Output struct {
	Name string
	Text []byte
}

// The network plugins that code is written for.
const (
	pluginKubenet = "kubenet"
	pluginOverlay = "overlay"
)

//go:embed bicep terraform
var templates embed.FS

// Terraform writes the order as Terraform configuration.
func (o Order) Terraform() ([]Output, error) {
	l, err := o.check()
	if err != nil {
		return nil, err
	}
	names := []string{"main.tf", "variables.tf"}
	if o.makesNetwork() {
		names = append(names, "network.tf", "cluster.tf")
	}
	if o.Keeper {
		names = append(names, "keeper.tf")
	}
	return write("terraform", append(names, "outputs.tf"), l)
}

// Bicep writes the order as Bicep.
func (o Order) Bicep() ([]Output, error) {
	l, err := o.check()
	if err != nil {
		return nil, err
	}
	names := []string{"main.bicep"}
	for _, module := range []struct {
		name   string
		wanted bool
	}{
		{"network", o.makesNetwork()}, {"cluster", o.makesNetwork()},
		{"identity", o.Keeper}, {"roles", o.Keeper}, {"kept", len(l.GuardedClusters) > 0}, {"nodes", len(l.GuardedClusters) > 0},
		{"assign-group", o.Keeper && (o.makesNetwork() || len(l.GuardedClusters)+len(l.LinkedGroups) > 0)},
		{"assign-subnet", o.Keeper && (o.makesNetwork() || len(l.GuardedClusters)+len(l.KeptSubnets) > 0)},
		{"assign-table", o.Keeper && (o.makesNetwork() || len(l.KeptTargets) > 0)},
	} {
		if module.wanted {
			names = append(names, "modules/"+module.name+".bicep")
		}
	}
	return write("bicep", names, l)
}

func (o Order) makesNetwork() bool { return o.Network && len(o.Kept) == 0 }

// write fills in the templates of files.
func write(language string, names []string, data any) ([]Output, error) {
	all, err := template.New("").Funcs(template.FuncMap{"hcl": hclString, "bicep": bicepString, "wrap": wrap}).ParseFS(templates, language+"/*.tmpl")
	if err != nil {
		return nil, err
	}
	var files []Output
	for _, name := range names {
		var text bytes.Buffer
		if err := all.ExecuteTemplate(&text, path.Base(name)+".tmpl", data); err != nil {
			return nil, err
		}
		if language == "terraform" {
			text = *bytes.NewBuffer(hclwrite.Format(text.Bytes()))
		}
		files = append(files, Output{name, text.Bytes()})
	}
	return files, nil
}

// layout is an order with what follows from it: what the templates read.
type layout struct {
	Order
	// Nodes and Gateway are the subnets, Services the range of Kubernetes services, DNS the address in it.
	Nodes, Gateway, Services netip.Prefix
	DNS                      netip.Addr
	// NodeTable: the node subnet has a route table. GatewayTable: the gateway's has one, because it needs pod routes.
	NodeTable, GatewayTable bool
	Roles                   []KeeperRole
	ClusterActions          []KeeperAction
	// Subscription is that of the kept clusters.
	Subscription string
	// GuardedClusters are those whose node subnets are guarded. KeptSubnets and KeptTargets are what the configs name, each once,
	// LinkedGroups the resource groups of it and of the tables that belong on it.
	GuardedClusters                        []Kept
	KeptSubnets, KeptTargets, LinkedGroups []arm.ID
	// Subscriptions are the GUIDs of all of them.
	Subscriptions []string
}

var (
	nameShape     = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,28}[a-z0-9])?$`)
	locationShape = regexp.MustCompile(`^[a-z][a-z0-9]{2,29}$`)
)

// serviceRanges are tried in this order; the first is what AKS takes by itself.
var serviceRanges = []string{"10.0.0.0/16", "172.16.0.0/16", "192.168.0.0/16"}

// check refuses what could not be applied, and lays the network out.
func (o Order) check() (layout, error) {
	l := layout{Order: o, Roles: KeeperRoles(), ClusterActions: clusterActions}
	switch {
	case !nameShape.MatchString(o.Name):
		return l, fmt.Errorf("%q is no name for it, expected up to 30 lower-case letters, digits and hyphens", o.Name)
	case !locationShape.MatchString(o.Location):
		return l, fmt.Errorf("%q is no location, expected one such as westeurope", o.Location)
	case o.Plugin != pluginKubenet && o.Plugin != pluginOverlay:
		return l, fmt.Errorf("unknown plugin %q, expected %s or %s", o.Plugin, pluginKubenet, pluginOverlay)
	case o.Provider != 4 && o.Provider != 5:
		return l, fmt.Errorf("the azurerm provider's version %d is not known here, expected 4 or 5", o.Provider)
	case !o.Network && !o.Keeper:
		return l, errors.New("neither the network nor the keeper is wanted")
	case o.Keeper && o.Plugin == pluginOverlay && len(o.Kept) == 0:
		return l, errors.New("an overlay cluster has no route table with pod routes: there is nothing to keep for it")
	case len(o.Kept) > 0:
		return l.keep()
	}
	return l.lay()
}

// lay divides the address space: the first quarter, /20 at most, is for nodes, the last /24 for the gateway.
func (l layout) lay() (layout, error) {
	l.NodeTable, l.GatewayTable = l.Plugin == pluginKubenet || l.Egress.IsValid(), l.Plugin == pluginKubenet
	for _, p := range []struct {
		what  string
		value netip.Prefix
		least int
	}{{"address space", l.Space, 22}, {"pod CIDR", l.Pods, 20}} {
		if !p.value.IsValid() || !p.value.Addr().Is4() || p.value != p.value.Masked() || p.value.Bits() < 8 || p.value.Bits() > p.least {
			return l, fmt.Errorf("%s is no %s for it, expected an IPv4 prefix from /8 to /%d", p.value, p.what, p.least)
		}
	}
	if l.Space.Overlaps(l.Pods) {
		return l, fmt.Errorf("the pod CIDR %s overlaps the address space %s", l.Pods, l.Space)
	}
	l.Nodes = netip.PrefixFrom(l.Space.Addr(), max(l.Space.Bits()+2, 20))
	l.Gateway = netip.PrefixFrom(lastAddr(l.Space), 24).Masked()
	for _, text := range serviceRanges {
		if p := netip.MustParsePrefix(text); !p.Overlaps(l.Space) && !p.Overlaps(l.Pods) {
			l.Services = p
			break
		}
	}
	if !l.Services.IsValid() {
		return l, fmt.Errorf("the address space and the pod CIDR leave no range for services: expected one of %s to be free", strings.Join(serviceRanges, ", "))
	}
	l.DNS = netip.AddrFrom4([4]byte{l.Services.Addr().As4()[0], l.Services.Addr().As4()[1], 0, 10})
	for _, taken := range []netip.Prefix{l.Pods, l.Services, l.Nodes, l.Gateway} {
		if l.Egress.IsValid() && (!l.Egress.Is4() || taken.Contains(l.Egress)) {
			return l, fmt.Errorf("a firewall cannot be at %s: expected an IPv4 address outside of %s, %s, %s and %s", l.Egress, l.Pods, l.Services, l.Nodes, l.Gateway)
		}
	}
	return l, nil
}

func lastAddr(p netip.Prefix) netip.Addr {
	a := p.Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		a[i/8] |= 0x80 >> (i % 8)
	}
	return netip.AddrFrom4(a)
}

// keep collects what the kept clusters' configs name.
func (l layout) keep() (layout, error) {
	note := func(list *[]arm.ID, id arm.ID) {
		if s := strings.ToLower(id.Subscription()); !slices.Contains(l.Subscriptions, s) {
			l.Subscriptions = append(l.Subscriptions, s)
		}
		if !slices.ContainsFunc(*list, id.Equal) {
			*list = append(*list, id)
		}
	}
	var clusters []arm.ID
	for _, k := range l.Kept {
		subscription := strings.ToLower(k.Cluster.Subscription())
		if l.Subscription != "" && l.Subscription != subscription {
			return l, fmt.Errorf("the clusters lie in the subscriptions %s and %s: expected configs of one, and its own code for each", l.Subscription, subscription)
		}
		l.Subscription = subscription
		note(&clusters, k.Cluster)
		if k.Guarded {
			l.GuardedClusters = append(l.GuardedClusters, k)
			if k.Table != "" {
				note(&l.LinkedGroups, k.Table.Group())
			}
		}
		for _, s := range k.Subnets {
			note(&l.KeptSubnets, s.Subnet)
			note(&l.LinkedGroups, s.Subnet.Group())
			note(&l.LinkedGroups, s.Table.Group())
		}
		for _, id := range k.Targets {
			note(&l.KeptTargets, id)
		}
	}
	slices.Sort(l.Subscriptions)
	return l, nil
}

// hclString quotes a string for HCL, where ${ and %{ begin expressions.
func hclString(s any) string {
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "${", "$${", "%{", "%%{").Replace(fmt.Sprint(s))
	return `"` + quoted + `"`
}

// bicepString quotes a string for Bicep.
func bicepString(s any) string {
	quoted := strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "${", `\${`).Replace(fmt.Sprint(s))
	return "'" + quoted + "'"
}

// wrap breaks a sentence into comment lines.
func wrap(prefix, text string) string {
	const width = 116
	var lines []string
	line := prefix
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > width && line != prefix {
			lines = append(lines, line)
			line = prefix
		}
		line += " " + word
	}
	return strings.Join(append(lines, line), "\n")
}
