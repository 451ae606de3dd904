package migrate

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/diagnose"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// remedy says how a kind of blocker is removed.
type remedy struct {
	code  finding.Code
	title string
	steps func(*clusterCase, finding.Finding) []Step
}

// remedies has the steps that remove blockers, in order. First come the reads that reveal other
// blockers, then what AKS needs to change the cluster at all, and last the steps that give subnets
// other tables.
//
//	read -> running, unlocked -> version -> identity -> policy engine -> pools, names, addresses -> tables
var remedies = []remedy{
	{finding.ReadFailed, "Give the right to read the network", nil},
	{finding.AzureUnreachable, "Wait until Azure answers", nil},
	{finding.ClusterStopped, "Start the cluster", nil},
	{finding.ResourceLocked, "Remove the lock until the migration is done", nil},
	{finding.MigrationVersion, "Upgrade Kubernetes", upgrade},
	{finding.MigrationIdentity, "Give the cluster a user-assigned identity", identity},
	{finding.MigrationPolicy, "Uninstall the network policy engine", policy},
	{finding.MigrationWindows, "Upgrade the image of the Windows pool", nil},
	{finding.MigrationPoolKind, "Replace the availability set", nil},
	{finding.MigrationMachines, "Replace the pool's machines", nil},
	{finding.MigrationNameLength, "Move the pool to a subnet with shorter names", nil},
	{finding.MigrationPodCIDR, "Choose another pod CIDR", podCIDR},
	{finding.MigrationContainers, "Give Application Gateway for Containers a /24", nil},
	{finding.SurgeShort, "Free addresses for the surge nodes", nil},
	{finding.MigrationTable, "Give the subnet its own route table", ownTable},
}

// references are sources that say more than Microsoft's page about a code.
var references = map[finding.Code]string{
	finding.MigrationTable:   "https://github.com/MicrosoftDocs/azure-aks-docs/issues/334",
	finding.ResourceLocked:   "https://github.com/Azure/AKS/issues/3291",
	finding.MigrationPodCIDR: "https://github.com/MicrosoftDocs/azure-aks-docs/issues/172",
}

// SourceOf returns the public page that says why a finding blocks the migration.
func SourceOf(code finding.Code) string {
	if at, known := references[code]; known {
		return at
	}
	return finding.Describe(code).Page
}

// stepsBefore returns the steps that remove the blockers. Broken pod traffic is repaired first.
func (c *clusterCase) stepsBefore() []Step {
	var steps []Step
	planned := func(code finding.Code) bool {
		return slices.ContainsFunc(remedies, func(r remedy) bool { return r.code == code })
	}
	for _, f := range c.blockers {
		if !planned(f.Code) {
			steps = append(steps, asFound("Repair pod traffic", f))
		}
	}
	for _, r := range remedies {
		for _, f := range c.blockers {
			switch {
			case f.Code != r.code:
			case r.steps != nil:
				steps = append(steps, r.steps(c, f)...)
			default:
				steps = append(steps, asFound(r.title, f))
			}
		}
	}
	for i := range steps {
		steps[i].Phase = Before
	}
	return steps
}

// asFound returns a step that the finding itself describes.
func asFound(title string, f finding.Finding) Step {
	s := Step{Title: title, Why: sentence(f.Message), Blocker: f.Code, Source: SourceOf(f.Code),
		Commands: []string{}}
	if f.Advice != "" {
		s.Why += " " + sentence(f.Advice)
	} else if f.Fix == "" {
		s.Why += " " + finding.Describe(f.Code).Remedy
	}
	if f.Fix != "" {
		s.Commands = append(s.Commands, f.Fix)
	}
	return s
}

// sentence returns a message with a capital letter and a full stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	_, n := utf8.DecodeRuneInString(text)
	return strings.ToUpper(text[:n]) + strings.TrimSuffix(text[n:], ".") + "."
}

// az returns a command of az aks about the cluster; it takes no resource IDs.
func (c *clusterCase) az(verb, options string, values ...any) string {
	id := c.cluster.ID
	template := strings.TrimSpace("az aks " + verb + " --subscription %s --resource-group %s " +
		"--name %s " + options)
	return finding.Command(template,
		append([]any{id.Subscription(), id.ResourceGroup(), id.Name()}, values...)...).String()
}

func upgrade(c *clusterCase, f finding.Finding) []Step {
	s := asFound("Upgrade Kubernetes", f)
	s.Why += " AKS cannot skip a minor version: repeat the upgrade until the " +
		"version is high enough."
	s.Commands = []string{c.az("get-upgrades", "--output table"),
		c.az("upgrade", "--kubernetes-version VERSION")}
	return []Step{s}
}

// podCIDR has no command: only the migration itself can change the pod CIDR.
func podCIDR(_ *clusterCase, f finding.Finding) []Step {
	return []Step{{Title: "Choose another pod CIDR", Blocker: f.Code, Source: SourceOf(f.Code),
		Why: sentence(f.Message) + " Choose a prefix that fits and overlaps nothing. The command " +
			"that migrates sets it: the cluster counts as blocked until then.",
		Commands: []string{}}}
}

// identity creates the identity and gives it its rights before the cluster gets it.
func identity(c *clusterCase, f finding.Finding) []Step {
	id := c.cluster.ID
	name := id.Name() + "-identity"
	at := arm.ResourceID(id.Subscription(), id.ResourceGroup(),
		"Microsoft.ManagedIdentity/userAssignedIdentities", name)
	s := asFound("Give the cluster a user-assigned identity", f)
	s.Why += fmt.Sprintf(" New roles take up to %d minutes to take effect.", roleDelay)
	s.Commands = []string{finding.Command("az identity create --subscription %s "+
		"--resource-group %s --name %s", id.Subscription(), id.ResourceGroup(), name).String()}
	scopes := []arm.ID{}
	for _, subnet := range c.cluster.ExistingSubnets() {
		scopes = append(scopes, subnet.Parent())
	}
	if c.table != nil && !c.cluster.IsNodeGroup(c.table.ID.Group()) {
		scopes = append(scopes, c.table.ID)
	}
	for _, scope := range inventory.SortIDs(scopes) {
		s.Commands = append(s.Commands, roleCommand(at, "Network Contributor", string(scope)))
	}
	if zone := c.cluster.PrivateZone; strings.HasPrefix(zone, "/") {
		s.Why += " The cluster is private: the identity also writes its private DNS zone."
		s.Commands = append(s.Commands, roleCommand(at, "Private DNS Zone Contributor", zone))
	}
	s.Commands = append(s.Commands,
		c.az("update", "--enable-managed-identity --assign-identity %s", at))
	return []Step{s}
}

func roleCommand(identity arm.ID, role, scope string) string {
	return finding.Command("az role assignment create --assignee-principal-type ServicePrincipal "+
		"--assignee-object-id \"$(az identity show --ids %s --query principalId --output tsv)\" "+
		"--role %s --scope %s", identity, role, scope).String()
}

func policy(c *clusterCase, f finding.Finding) []Step {
	s := asFound("Uninstall the network policy engine", f)
	s.Why += " Until you install an engine again, nothing enforces network policies."
	return []Step{s}
}

// ownTable gives a subnet its own table, which is filled before it is associated, so that the
// gateway can always reach the pods.
func ownTable(c *clusterCase, f finding.Finding) []Step {
	subnet := arm.ID(f.Resource)
	table := diagnose.NewTable(c.Snapshot, subnet)
	s := asFound("Give subnet "+subnet.Short()+" its own route table", f)
	s.Why = sentence(f.Message) + " Fill the new table before the subnet gets it: add it to " +
		"spec.targets of " + c.name + " (routeTableID: " + string(table) + "), then sync."
	if len(c.unmanaged) > 0 {
		s.Why += " Copy the other routes of the old table that this subnet needs."
	}
	s.Commands = []string{diagnose.CreateTable(c.Snapshot, subnet, table).String()}
	for _, r := range c.unmanaged {
		s.Commands = append(s.Commands, routeCommand(table, r))
	}
	if c.Proposed {
		s.Commands = append(s.Commands, finding.Command("routekeeper init --cluster %s --out %s",
			c.cluster.ID, c.File).String())
	}
	s.Commands = append(s.Commands,
		finding.Command("routekeeper sync -f %s", c.File).String(),
		finding.Command("az network vnet subnet update --ids %s --route-table %s", subnet,
			table).String())
	return []Step{s}
}

func routeCommand(table arm.ID, r inventory.Route) string {
	line := finding.Command("az network route-table route create --subscription %s "+
		"--resource-group %s --route-table-name %s --name %s --address-prefix %s "+
		"--next-hop-type %s", table.Subscription(), table.ResourceGroup(), table.Name(), r.Name,
		r.Destination(), r.HopType)
	if r.Hop.IsValid() {
		line = finding.Command("%s --next-hop-ip-address %s", line, r.Hop)
	}
	return line.String()
}
