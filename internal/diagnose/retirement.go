package diagnose

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/capacity"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/lazy"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Retired is the retirement day of kubenet (Azure/AKS#4859, and a callout on every page of AKS
// about kubenet).
var Retired = time.Date(2028, time.March, 31, 0, 0, 0, 0, time.UTC)

// DaysLeft returns the days until kubenet's retirement; negative after it.
func DaysLeft(today time.Time) int {
	return int(Retired.Sub(today.UTC().Truncate(24*time.Hour)).Hours() / 24)
}

// checkRetirement counts the days to kubenet's retirement, and finds what blocks the migration to
// Azure CNI Overlay. Conditions without another source come from AKS's page update-azure-cni, as of
// November 2026.
func checkRetirement(p *clusterCase) {
	if p.cluster.Migrating {
		return
	}
	others := len(p.findings)
	othersOnTable(p)
	orphansToCome(p)
	podCIDRForOverlay(p)
	identityForOverlay(p)
	forOverlay(p)
	p.add(retirement(p, p.findings[others:]))
}

// forOverlay checks what AKS requires of any cluster that moves to overlay.
func forOverlay(p *clusterCase) {
	policyForOverlay(p)
	poolsForOverlay(p)
	versionForOverlay(p)
	namesForOverlay(p)
	p.containerSubnets(finding.MigrationContainers)
}

// ForOverlay returns what AKS requires of a cluster with Azure CNI before the cluster moves to
// overlay. Check leaves this out: such a cluster need not move.
func ForOverlay(c Case, id arm.ID) []finding.Finding {
	p := c.clusterCase(id)
	if p == nil {
		return nil
	}
	forOverlay(p)
	return p.findings
}

// retirement returns the finding that every kubenet cluster gets.
func retirement(p *clusterCase, blockers []finding.Finding) finding.Finding {
	days := DaysLeft(p.Today)
	when := fmt.Sprintf("is retired on 31 March 2028, in %d days", days)
	switch {
	case p.Today.IsZero(): // the date is unknown
		when, days = "is retired on 31 March 2028", 1
	case days <= 0:
		when = fmt.Sprintf("was retired on 31 March 2028, %d days ago", -days)
	}
	f := p.found(finding.KubenetRetired, p.cluster.ID,
		"kubenet %s: migrate cluster %s to Azure CNI Overlay", when, p.cluster.ID.Short())
	if days <= 0 {
		f.Severity = finding.Warning
	}
	for _, b := range blockers {
		if b.Severity > finding.Info {
			f = f.With("blocker: " + b.Message)
		}
	}
	advice := "fix the blockers first; the migration cannot be reversed"
	if len(f.Evidence) == 0 {
		f = f.With("no blocker found")
		advice = "the migration cannot be reversed: test it on another cluster first"
	}
	// From the warnings in update-azure-cni. This program does not read ConfigMaps.
	f = f.With("not checked: a custom azure-ip-masq-agent configuration, which can break " +
		"connections after the migration, and an old ConfigMap azure-ip-masq-agent-config in " +
		"kube-system, which you must delete first")
	return f.With(afterwards(p)...).WithAdvice("%s", advice).
		WithFix("%s", p.azAKS("update", "--network-plugin azure --network-plugin-mode overlay"))
}

// afterwards says what is different after the migration.
func afterwards(p *clusterCase) (lines []string) {
	switch table := p.source.Table; {
	case table == "":
	case p.existing(table):
		lines = append(lines, "AKS will remove the pod routes from route table "+table.Short()+
			" and leave the others in it")
	default:
		lines = append(lines, "AKS will delete route table "+table.Short()+
			", including all other routes in it")
	}
	if p.cluster.Ingress != "" && !p.s.Unread[p.cluster.Ingress.Key()].Absent { // AGIC#1524
		lines = append(lines, "Application Gateway "+p.cluster.Ingress.Short()+
			" will learn the pods' addresses by itself and need no routes to them")
	}
	if len(p.cluster.PodCIDRs) > 1 {
		lines = append(lines, "the cluster is dual-stack: AKS migrates it, but IPv6 does not "+
			"work during the migration (AKS#5120)")
	}
	return lines
}

// othersOnTable finds subnets other than the node subnets that have the cluster's route table: with
// any such subnet the migration fails (azure-aks-docs#334).
func othersOnTable(p *clusterCase) {
	if p.table == nil || p.source.Doubtful {
		return
	}
	others := slices.Clone(p.table.Subnets)
	for _, subnet := range p.s.Subnets {
		if subnet.RouteTable.Equal(p.table.ID) {
			others = append(others, subnet.ID)
		}
	}
	nodes := p.s.NodeSubnetIDs(p.cluster)
	for _, id := range inventory.SortIDs(others) {
		subnet := p.s.Subnet(id)
		if slices.ContainsFunc(nodes, id.Equal) || p.cluster.IsManagedSubnet(id) ||
			subnet != nil && !subnet.RouteTable.Equal(p.table.ID) {
			continue // it is the cluster's, or the newer subnet document names another table
		}
		whose := ""
		if subnet != nil && len(subnet.Gateways) > 0 {
			whose = " of Application Gateway " + subnet.Gateways[0].Short()
		}
		p.add(p.found(finding.MigrationTable, id,
			"subnet %s%s has route table %s of cluster %s, so the migration to overlay will fail",
			id.Short(), whose, p.table.ID.Short(), p.cluster.ID.Short()).WithAdvice(
			"give the subnet its own table, with the pod routes until the migration; replace "+
				"TABLE with its ID").
			WithFix("az network vnet subnet update --ids %s --route-table TABLE", id))
	}
}

// orphansToCome finds pod routes in other tables: the migration removes pod routes only from the
// cluster's route table.
func orphansToCome(p *clusterCase) {
	if p.config == nil || p.source.Table == "" {
		return // any table with pod routes may be the cluster's
	}
	var tables []arm.ID
	for _, table := range p.s.Tables {
		if !table.ID.Equal(p.source.Table) && plan.LeadsToNodes(p.s, p.config, table) &&
			!p.s.LeadsElsewhere(table, p.cluster) {
			tables = append(tables, table.ID)
		}
	}
	if len(tables) == 0 {
		return
	}
	var names, lines []string
	for _, id := range inventory.SortIDs(tables) {
		names, lines = append(names, id.Short()), append(lines, string(id))
	}
	p.add(p.found(finding.MigrationOrphans, p.cluster.ID,
		"the migration to overlay will leave pod routes of cluster %s behind in %s",
		p.cluster.ID.Short(), strings.Join(names, ", ")).With(lines...).
		WithAdvice("run this after the migration").
		WithFix("routekeeper sync prune --subscription %s", p.cluster.ID.Subscription()))
}

// MostNodes returns how many nodes a cluster can have, including the surge of an upgrade.
func MostNodes(c *inventory.Cluster) (nodes int) {
	for _, pool := range c.Pools {
		most := max(pool.Count, pool.MaxCount)
		nodes += most + capacity.SurgeOf(pool.MaxSurge).Of(most)
	}
	return nodes
}

// podCIDRForOverlay checks the pod CIDR. With overlay each node takes a /24 of it, and it must not
// overlap the nodes' virtual network, the networks peered with it, or the service CIDR
// (azure-cni-overlay, IP address planning).
func podCIDRForOverlay(p *clusterCase) {
	nodes := MostNodes(p.cluster)
	fix := p.azAKS("update", "--network-plugin azure --network-plugin-mode overlay --pod-cidr "+
		"PREFIX")
	for _, cidr := range p.cluster.PodCIDRs {
		if fit := (capacity.Setup{Plugin: capacity.Overlay, PodCIDR: cidr}).
			Fits(); nodes > fit.Nodes {
			p.add(p.found(finding.MigrationPodCIDR, p.cluster.ID,
				"cluster %s can grow to %d nodes, including the surge of an upgrade, but with "+
					"overlay %s has room for %d",
				p.cluster.ID.Short(), nodes, fit.LimitedBy, fit.Nodes).About(cidr.String()).
				WithAdvice(onlyThen).WithFix("%s", fix))
		}
		for _, other := range surroundings(p) {
			if cidr.Overlaps(other.prefix) {
				p.add(p.found(finding.MigrationPodCIDR, p.cluster.ID,
					"the pod CIDR %s of cluster %s overlaps %s of %s, which overlay does not "+
						"support",
					cidr, p.cluster.ID.Short(), other.prefix, other.whose).About(cidr.String()+" "+
					other.prefix.String()).WithAdvice(onlyThen).WithFix("%s", fix))
			}
		}
	}
}

// onlyThen says when the pod CIDR can be changed.
const onlyThen = "name another pod CIDR in the command that migrates, which cannot be undone: do " +
	"everything else first (routekeeper migrate plan)"

// surrounding is a prefix that the pod CIDR must not overlap.
type surrounding struct {
	prefix netip.Prefix
	whose  string
}

func surroundings(p *clusterCase) []surrounding {
	var out []surrounding
	for _, prefix := range p.cluster.ServiceCIDRs {
		out = append(out, surrounding{prefix, "the services"})
	}
	var networks []arm.ID
	for _, subnet := range p.s.NodeSubnetIDs(p.cluster) {
		networks = append(networks, subnet.Parent())
	}
	for _, id := range inventory.SortIDs(networks) {
		vnet := p.s.VNets[id.Key()]
		if vnet == nil {
			continue
		}
		for _, prefix := range vnet.Prefixes {
			out = append(out, surrounding{prefix, "virtual network " + id.Short()})
		}
		for _, peering := range vnet.Peerings {
			for _, prefix := range peering.Prefixes {
				out = append(out, surrounding{prefix, "virtual network " + peering.Remote.Short() +
					", which is peered with it"})
			}
		}
	}
	return out
}

// identityForOverlay checks the identity: only a user-assigned one can remove the table from the
// subnets.
func identityForOverlay(p *clusterCase) {
	has := "a system-assigned identity"
	switch {
	case strings.Contains(strings.ToLower(p.cluster.Identity), "userassigned"):
		return
	case p.cluster.Identity == "" && len(p.cluster.Principals) < 2:
		return // the document names no identity
	case p.cluster.Identity == "":
		has = "a service principal"
	}
	p.add(p.found(finding.MigrationIdentity, p.cluster.ID,
		"cluster %s has %s, but the migration to overlay needs a user-assigned identity",
		p.cluster.ID.Short(), has).
		WithFix("%s", p.azAKS("update", "--enable-managed-identity --assign-identity IDENTITY_ID")))
}

// policyForOverlay finds a network policy engine. Cilium need not go: the data plane can move
// before the plugin mode does.
func policyForOverlay(p *clusterCase) {
	switch strings.ToLower(p.cluster.Policy) {
	case "", "none", "cilium":
		return
	}
	f := p.found(finding.MigrationPolicy, p.cluster.ID,
		"cluster %s has the network policy engine %s, but AKS migrates only clusters without one "+
			"to overlay",
		p.cluster.ID.Short(), p.cluster.Policy)
	if minor, known := minor(p); known && minor < uninstalls {
		p.add(f.With(fmt.Sprintf("AKS removes the engine from Kubernetes 1.%d on", uninstalls)).
			WithFix("%s", p.azAKS("upgrade", "--kubernetes-version VERSION")))
		return
	}
	p.add(f.WithFix("%s", p.azAKS("update", "--network-policy none")))
}

func poolsForOverlay(p *clusterCase) {
	for _, pool := range p.cluster.Pools {
		if pool.Windows {
			p.add(p.found(finding.MigrationWindows, p.cluster.ID,
				"pool %s of cluster %s runs Windows: the migration to overlay needs containerd "+
					"and build 20348.1668 or later",
				pool.Name, p.cluster.ID.Short()).About(pool.Name))
		}
		if strings.EqualFold(pool.Kind, "AvailabilitySet") { // azure-cni-overlay, limitations
			p.add(p.found(finding.MigrationPoolKind, p.cluster.ID,
				"pool %s of cluster %s is an availability set, which overlay does not support",
				pool.Name, p.cluster.ID.Short()).About(pool.Name))
		}
		if confidential().MatchString(pool.Size) { // azure-cni-overlay, limitations
			p.add(p.found(finding.MigrationMachines, p.cluster.ID,
				"pool %s of cluster %s has machines of size %s, which overlay does not support",
				pool.Name, p.cluster.ID.Short(), pool.Size).About(pool.Name))
		}
	}
}

// confidential has the sizes of the DCsv2 series.
var confidential = lazy.Regexp(`(?i)^Standard_DC\d+s_v2$`)

// containerSubnets finds the subnets for Application Gateway for Containers, in the networks of the
// nodes, that do not suit overlay (its page container-networking; its controller refuses larger
// ones: AKS#5123, AKS#5170).
func (p *clusterCase) containerSubnets(code finding.Code) {
	networks := p.nodeNetworks()
	for _, key := range slices.Sorted(maps.Keys(p.s.Subnets)) {
		subnet := p.s.Subnets[key]
		if !subnet.DelegatedTo("Microsoft.ServiceNetworking/trafficControllers") ||
			!slices.ContainsFunc(networks, subnet.ID.Parent().Equal) || len(subnet.Prefixes) == 0 ||
			subnet.Prefixes[0].Bits() == 24 {
			continue
		}
		p.add(p.found(code, subnet.ID,
			"subnet %s of Application Gateway for Containers has %s, but with overlay it must be "+
				"a /24", subnet.ID.Short(), subnet.Prefixes[0]))
	}
}

// oldest is the first minor version of Kubernetes 1 from which AKS migrates clusters. uninstalls is
// the first one from which it removes a network policy engine (AKS#5832, release notes).
const (
	oldest     = 27
	uninstalls = 30
)

// minor returns the minor version of the cluster's Kubernetes 1.
func minor(p *clusterCase) (minor int, known bool) {
	parts := strings.Split(p.cluster.Version, ".")
	if len(parts) < 2 || parts[0] != "1" {
		return 0, false
	}
	minor, err := strconv.Atoi(parts[1])
	return minor, err == nil
}

func versionForOverlay(p *clusterCase) {
	if minor, known := minor(p); !known || minor >= oldest {
		return
	}
	p.add(p.found(finding.MigrationVersion, p.cluster.ID,
		"cluster %s has Kubernetes %s, but the migration to overlay needs 1.%d or later",
		p.cluster.ID.Short(), p.cluster.Version, oldest).
		WithFix("%s", p.azAKS("upgrade", "--kubernetes-version VERSION")))
}

// namesForOverlay checks the names that become node labels (azure-cni-overlay, limitations).
func namesForOverlay(p *clusterCase) {
	const most = 63
	for _, subnet := range p.cluster.ExistingSubnets() {
		for _, name := range []string{subnet.Name(), subnet.Parent().Name(),
			subnet.ResourceGroup()} {
			if len(name) > most {
				p.add(p.found(finding.MigrationNameLength, subnet,
					"the name %s (of subnet %s, its network or its resource group) has %d "+
						"characters, but overlay allows %d", name, subnet.Short(), len(name), most).
					About(name))
			}
		}
	}
}
