package diagnose

import (
	"cmp"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// need is an action that an identity needs at a scope, with the purpose.
type need struct {
	scope  arm.ID
	action string
	what   string
	// undocumented is set if no page of Azure says that the identity needs it.
	undocumented bool
}

// needs is a list of needs without duplicates.
type needs []need

func (n *needs) add(scope arm.ID, what string, actions ...string) {
	for _, action := range actions {
		if scope != "" && !slices.ContainsFunc(*n, func(o need) bool {
			return o.action == action && o.scope.Equal(scope)
		}) {
			*n = append(*n, need{scope: scope, action: action, what: what})
		}
	}
}

// Scopes returns the scopes where permissions matter for the clusters of a case, and the object IDs
// of the clusters' identities. Read them into the snapshot's CallerRights and Rights before Check.
// The resources that the needs depend on must already be in the snapshot.
func (c Case) Scopes() (scopes []arm.ID, principals []string) {
	c.nicsOf = interfacesByGroup(c.Snapshot)
	for _, id := range c.Clusters {
		p := c.clusterCase(id)
		if p == nil {
			continue
		}
		for _, n := range slices.Concat(identityNeeds(p), addonNeeds(p), callerNeeds(p)) {
			scopes = append(scopes, n.scope)
		}
		principals = append(principals, p.cluster.PrincipalIDs...)
		if who := p.cluster.IngressPrincipal; who != "" {
			principals = append(principals, who)
		}
	}
	slices.Sort(principals)
	return inventory.SortIDs(scopes), slices.Compact(principals)
}

// identityNeeds returns the permissions that the cluster's identity needs on existing resources. On
// resources that AKS made it already has its role (concepts-network-legacy-cni). Roles are assigned
// at a resource or above it, so actions on routes are checked at their table.
func identityNeeds(p *clusterCase) (n needs) {
	if table := p.source.Table; p.cluster.Kubenet() && !p.source.Doubtful && p.existing(table) {
		n.add(table, "to manage the pod routes in it", arm.TypeRouteTable+"/read",
			arm.TypeRouteTable+
				"/write",
			arm.TypeRouteTable+"/routes/read", arm.TypeRouteTable+
				"/routes/write", arm.TypeRouteTable+"/routes/delete")
	}
	for _, pool := range p.cluster.Pools {
		if p.existing(pool.Subnet) {
			n.add(pool.Subnet, "to create nodes in it", arm.TypeSubnet+"/read",
				arm.TypeSubnet+"/join/action")
		}
	}
	for _, id := range p.s.Provisioned(p.cluster, p.nics) { // karpenter-provider-azure#944
		if p.existing(id) {
			n.add(id, "to create nodes in it by auto-provisioning", arm.TypeSubnet+"/read",
				arm.TypeSubnet+"/join/action")
		}
	}
	// The page about pod subnets (configure-azure-cni-dynamic-ip-allocation) assigns no role, and
	// az assigns one on the node subnet only (azure-cli, acs:
	// process_add_role_assignment_for_vnet_subnet).
	for _, pool := range p.cluster.Pools {
		if known := len(n); p.existing(pool.PodSubnet) {
			n.add(pool.PodSubnet, "to give pods addresses in it", arm.TypeSubnet+"/join/action")
			for i := known; i < len(n); i++ {
				n[i].undocumented = true
			}
		}
	}
	return n
}

// addonNeeds returns the permissions that the ingress add-on needs on a gateway that AKS did not
// make (application-gateway-kubernetes-ingress#997, #1463).
func addonNeeds(p *clusterCase) (n needs) {
	id := p.cluster.Ingress
	if !p.cluster.IngressAddon || !p.existing(id) {
		return nil
	}
	n.add(id, "to write its configuration", arm.TypeGateway+"/read", arm.TypeGateway+"/write")
	n.add(id.Group(), "to read what belongs to the gateway",
		"Microsoft.Resources/subscriptions/resourceGroups/read")
	if gateway := p.s.Gateways[id.Key()]; gateway != nil {
		for _, subnet := range gateway.Subnets {
			n.add(subnet, "to write the gateway in it", arm.TypeSubnet+"/join/action")
		}
	}
	return n
}

// existing reports whether a resource is bring-your-own, so not made by AKS.
func (p *clusterCase) existing(id arm.ID) bool {
	return id != "" && !id.Group().Equal(p.cluster.NodeGroup())
}

// callerNeeds returns the permissions that the current identity needs for the config.
func callerNeeds(p *clusterCase) (n needs) {
	if !inventory.Clusterless(p.cluster.ID) {
		n.add(p.cluster.ID, "to read its node pools", arm.TypeCluster+"/read")
	}
	for _, subnet := range p.s.NodeSubnetIDs(p.cluster) {
		n.add(subnet, "to see its route table", arm.TypeSubnet+"/read")
	}
	if p.config == nil {
		return n
	}
	n.add(p.source.Table, "to read the pod routes", arm.TypeRouteTable+"/read")
	guard := p.config.Spec.Guard
	if guard.Mode != v1alpha1.GuardOff {
		for _, g := range guard.Subnets {
			n.add(arm.ID(g.SubnetID), "to see its route table", arm.TypeSubnet+"/read")
			n.add(arm.ID(g.RouteTableID), "to check that it exists", arm.TypeRouteTable+"/read")
		}
	}
	if guard.Mode == v1alpha1.GuardEnforce {
		if !p.source.Doubtful {
			for _, subnet := range p.s.NodeSubnetIDs(p.cluster) {
				guardNeeds(p, &n, subnet, p.source.Table)
			}
		}
		for _, g := range guard.Subnets {
			guardNeeds(p, &n, arm.ID(g.SubnetID), arm.ID(g.RouteTableID))
		}
	}
	if e := p.config.Spec.Egress; e.RouteTableID != "" {
		n.add(arm.ID(e.RouteTableID), "to check its egress routes", arm.TypeRouteTable+"/read")
		if e.FirewallID != "" {
			id, _ := inventory.ApplianceOf(arm.ID(e.FirewallID))
			right := arm.TypeFirewall
			if id.Is(arm.TypeLoadBalancer) {
				right = arm.TypeLoadBalancer
			}
			n.add(id, "to check where the egress routes lead", right+"/read")
		}
		if e.Mode == v1alpha1.GuardEnforce && !p.source.Table.Equal(arm.ID(e.RouteTableID)) {
			n.add(arm.ID(e.RouteTableID), "to put a lost egress route back",
				arm.TypeRouteTable+"/write")
		}
	}
	for _, target := range p.config.Spec.Targets {
		table := arm.ID(target.RouteTableID)
		n.add(table, "to compare its routes", arm.TypeRouteTable+"/read")
		if target.Policy != v1alpha1.PolicyObserve { // the NICs prove deletes and updates
			n.add(table, "to copy the pod routes to it", arm.TypeRouteTable+"/write")
			n.add(p.cluster.NodeGroup(), "to prove, before a route is deleted or updated, that "+
				"its node is gone or has another address",
				arm.TypeScaleSet+"/read", arm.TypeScaleSet+
					"/networkInterfaces/read", arm.TypeInterface+"/read")
		}
	}
	return n
}

// guardNeeds adds the permissions to associate a table with a subnet. The write contains the whole
// subnet, so it joins every linked resource again (LinkedAuthorizationFailed names the missing
// action). A subnet that was not read may have more links.
func guardNeeds(p *clusterCase, n *needs, id, table arm.ID) {
	what := "to repair a lost route table on subnet " + id.Short()
	n.add(id, what, arm.TypeSubnet+"/write")
	n.add(table, what, arm.TypeRouteTable+"/join/action")
	subnet := p.s.Subnet(id)
	if subnet == nil {
		return
	}
	n.add(subnet.SecurityGroup, what, arm.TypeSecurityGroup+"/join/action")
	n.add(subnet.NATGateway, what, "Microsoft.Network/natGateways/join/action")
	for _, policy := range subnet.EndpointPolicies {
		n.add(policy, what, "Microsoft.Network/serviceEndpointPolicies/join/action")
	}
}

// checkPermissions checks permissions, locks and the lockdown.
func checkPermissions(p *clusterCase) {
	identity := principalHolder(p, finding.IdentityLacks, "the identity of cluster "+
		p.cluster.ID.Short(), p.cluster.PrincipalIDs)
	lockdown(p, callerNeeds(p))
	p.add(identity.check(identityNeeds(p))...)
	if needs := identityNeeds(p); len(p.cluster.PrincipalIDs) == 0 && len(needs) > 0 {
		p.add(finding.New(finding.RightsUnread, p.name, string(p.cluster.ID),
			"the rights of the identity of cluster %s on %s are unknown: the cluster's document "+
				"does not contain its object ID, as with a service principal", p.cluster.ID.Short(),
			called(needs[0].scope)).
			About("service principal").WithAdvice("replace CLIENT_ID with the client ID of the "+
			"service principal").
			WithFix("az role assignment list --assignee CLIENT_ID --scope %s --include-inherited",
				needs[0].scope))
	}
	if who := p.cluster.IngressPrincipal; who != "" {
		addon := principalHolder(p, finding.AddonLacks, "the identity of the ingress add-on of "+
			"cluster "+p.cluster.ID.Short(), []string{who})
		p.add(addon.check(addonNeeds(p))...)
	}
	p.add(checkCaller(p)...)
	p.locks(callerNeeds(p), identityNeeds(p))
}

// principalHolder returns the permissions of the identity with these object IDs.
func principalHolder(p *clusterCase, code finding.Code, who string, ids []string) holder {
	h := holder{
		p: p, code: code, who: who,
		rights: func(scope arm.ID) (all []inventory.Rights) {
			for _, id := range ids {
				if r, read := p.s.Rights[id][scope.Key()]; read {
					all = append(all, r)
				}
			}
			return all
		},
	}
	if len(ids) > 0 {
		h.assignee = finding.Command("--assignee-object-id %s --assignee-principal-type "+
			"ServicePrincipal", ids[0])
	}
	return h
}

// checkCaller finds permissions that the current identity lacks.
func checkCaller(p *clusterCase) []finding.Finding {
	caller := holder{
		p: p, code: finding.CallerLacks, who: "the current identity", assignee: callerAssignee(p),
		rights: func(scope arm.ID) []inventory.Rights {
			if r, read := p.s.CallerRights[scope.Key()]; read {
				return []inventory.Rights{r}
			}
			return nil
		},
	}
	if p.s.Caller != "" {
		caller.who += " (" + p.s.Caller + ")"
	}
	wanted := callerNeeds(p)
	if p.cluster.Locked { // the lockdown refuses every other writer, and one finding says so
		wanted = slices.DeleteFunc(wanted, func(n need) bool {
			return !p.existing(n.scope) && !reads(n.action)
		})
	}
	return caller.check(wanted)
}

// CallerScopes returns the scopes where the caller's permissions matter for the configs of a case.
// Read them into the snapshot's CallerRights before CheckCaller.
func (c Case) CallerScopes() []arm.ID {
	var scopes []arm.ID
	for _, id := range c.Clusters {
		if p := c.clusterCase(id); p != nil {
			for _, n := range callerNeeds(p) {
				scopes = append(scopes, n.scope)
			}
		}
	}
	return inventory.SortIDs(scopes)
}

// CheckCaller finds permissions that the caller lacks for the configs of a case, and permissions
// that could not be read. A permission that several clusters need is reported once.
func (c Case) CheckCaller() []finding.Finding {
	var found []finding.Finding
	for _, id := range inventory.SortIDs(slices.Clone(c.Clusters)) {
		if p := c.clusterCase(id); p != nil {
			for _, f := range checkCaller(p) {
				if !slices.ContainsFunc(found, func(o finding.Finding) bool {
					return o.Code == f.Code && o.Message == f.Message
				}) {
					found = append(found, f)
				}
			}
		}
	}
	return found
}

func callerAssignee(p *clusterCase) finding.CommandLine {
	if p.s.Caller == "" {
		return finding.Command("--assignee OBJECT_ID")
	}
	return finding.Command("--assignee %s", p.s.Caller)
}

func reads(action string) bool { return strings.HasSuffix(action, "/read") }

// holder is an identity with its permissions.
type holder struct {
	p        *clusterCase
	code     finding.Code
	who      string
	assignee finding.CommandLine
	// rights returns the permissions at a scope. One of them is enough. It returns none if they
	// were not read.
	rights func(scope arm.ID) []inventory.Rights
}

// check compares needs with permissions, scope by scope.
func (h holder) check(wanted needs) []finding.Finding {
	var found []finding.Finding
	var unread []string
	var where arm.ID // the first scope at which something could not be read
	for len(wanted) > 0 {
		scope := wanted[0].scope
		here := slices.DeleteFunc(slices.Clone(wanted), func(n need) bool {
			return !n.scope.Equal(scope)
		})
		wanted = slices.DeleteFunc(wanted, func(n need) bool { return n.scope.Equal(scope) })
		rights := h.rights(scope)
		if len(rights) == 0 {
			continue // not read
		}
		var lacking needs
		for _, n := range here {
			why, may := may(rights, n.action)
			switch {
			case why != "":
				unread, where = append(unread, called(scope)+": "+why), cmp.Or(where, scope)
			case !may:
				lacking = append(lacking, n)
			}
		}
		if len(lacking) > 0 {
			found = append(found, h.lacks(scope, lacking, here, rights))
		}
	}
	if unread = slices.Compact(unread); len(unread) > 0 {
		f := finding.New(finding.RightsUnread, h.p.name, string(h.p.cluster.ID),
			"the rights of %s on %s could only be read in part", h.who, called(where))
		found = append(found, f.About(string(h.code)).With(unread...).
			WithFix("az role assignment create %s --role Reader --scope %s", callerAssignee(h.p),
				where))
	}
	return found
}

// may reports whether an action is allowed, or why that is unknown.
func may(rights []inventory.Rights, action string) (why string, may bool) {
	for _, r := range rights {
		if r.May(action) {
			return r.Undenied, true
		}
	}
	for _, r := range rights {
		if r.Failed != "" && !denied(r, action) {
			return r.Failed, false
		}
	}
	return "", false
}

// denied reports whether a deny assignment forbids an action, even if roles allow it.
func denied(r inventory.Rights, action string) bool {
	return !inventory.Rights{Permissions: []inventory.Permission{{Actions: []string{"*"}}},
		Denied: r.Denied}.May(action)
}

// lacks reports the missing permissions at one scope. The recommended role must include all needed
// actions at that scope, so that it can replace the other roles.
func (h holder) lacks(scope arm.ID, lacking, needed needs,
	rights []inventory.Rights) finding.Finding {
	actions := make([]string, len(lacking))
	role, byRole := "Reader", false
	var lines, purposes []string
	for i, n := range lacking {
		actions[i] = n.action
		if !slices.Contains(purposes, n.what) {
			purposes = append(purposes, n.what)
		}
		lines = append(lines, n.action+": "+n.what)
		if !reads(n.action) {
			// the smallest built-in role that writes and joins networks
			role = "Network Contributor"
		}
		byRole = byRole || !slices.ContainsFunc(rights, func(r inventory.Rights) bool {
			return denied(r, n.action)
		})
	}
	f := finding.New(h.code, h.p.name, string(scope), "%s lacks %s on %s, which it needs %s", h.who,
		strings.Join(actions, ", "), called(scope), strings.Join(purposes, " and "))
	if h.code == finding.CallerLacks && h.p.Proposed {
		f.Severity = finding.Info
	}
	if !slices.ContainsFunc(lacking, func(n need) bool { return !n.undocumented }) {
		f = finding.New(h.code, h.p.name, string(scope), "%s has no %s on %s: Azure does not "+
			"document whether it needs that %s", h.who, strings.Join(actions, ", "), called(scope),
			strings.Join(purposes, " and "))
		f.Severity = finding.Info
		return f.With(lines...)
	}
	var roles, denials []string
	for _, r := range rights {
		roles, denials = append(roles, r.Roles...), append(denials, r.DeniedBy...)
	}
	if len(roles) > 0 {
		lines = append(lines, "roles there: "+strings.Join(roles, ", "))
	}
	if len(denials) > 0 {
		lines = append(lines, "deny assignments there: "+strings.Join(denials, ", "))
	}
	if !byRole {
		return f.With(lines...).WithAdvice("remove the deny assignment at its source (a " +
			"deployment stack, a managed application): no role overrides it")
	}
	custom := make([]string, len(needed))
	for i, n := range needed {
		custom[i] = n.action
	}
	return f.With(append(lines, "the smallest built-in role is "+role+"; a custom role needs "+
		strings.Join(custom, ", "))...).
		WithFix("az role assignment create %s --role %s --scope %s", h.assignee, role, scope)
}

// called names a resource with its kind.
func called(id arm.ID) string {
	kinds := map[string]string{
		arm.TypeCluster: "cluster", arm.TypeRouteTable: "route table", arm.TypeSubnet: "subnet",
		arm.TypeVNet:          "virtual network",
		arm.TypeSecurityGroup: "network security group", arm.TypeResourceGroup: "resource group",
		arm.TypeSubscription:                        "subscription",
		"Microsoft.Network/natGateways":             "NAT gateway",
		"Microsoft.Network/serviceEndpointPolicies": "service endpoint policy",
	}
	for kind, word := range kinds {
		if id.Is(kind) {
			return word + " " + id.Short()
		}
	}
	return id.Type() + " " + id.Short()
}
