package aks

import (
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/authorization"
	"routekeeper.dev/routekeeper/internal/emulator/entra"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// clusterPrincipal returns a cluster's identity: the user-assigned one in its document, or a
// system-assigned one.
func (s *AKS) clusterPrincipal(r *kernel.Resource) kernel.Principal {
	for _, id := range entra.AssignedIdentities(r.Body) {
		if assigned := s.kernel.Store.Get(id); assigned != nil {
			return entra.IdentityOf(assigned)
		}
	}
	return kernel.Principal{
		Name:     r.ID.Name() + " identity",
		ClientID: kernel.GuidOf("client", r.ID),
		ObjectID: kernel.GuidOf("object", r.ID),
		Tenant:   s.kernel.Opts.TenantOf(r.ID.Subscription()),
		Resource: string(r.ID),
	}
}

// checkClusterIdentity refuses a cluster whose identity lacks rights on the existing network that
// it uses. A system-assigned identity does not exist before its cluster, so it cannot have a role
// yet: with kubenet, the cluster may not use an existing table.
func (s *AKS) checkClusterIdentity(r *kernel.Resource) *kernel.Failure {
	for _, p := range kernel.ListAt(r.Properties(), "agentPoolProfiles") {
		if f := s.pools.checkSubnet(r, p); f != nil {
			return f
		}
	}
	return nil
}

// checkSubnet works like checkClusterIdentity for one pool.
func (s agentPools) checkSubnet(r *kernel.Resource, p kernel.Object) *kernel.Failure {
	subnet := s.kernel.Store.Get(arm.ID(kernel.Text(p, "vnetSubnetID")))
	if subnet == nil || !s.opts.CheckClusterIdentity {
		return nil
	}
	properties := r.Properties()
	own, who := !entra.HasUserIdentity(r.Body), s.clusterPrincipal(r)
	nodeGroup := arm.GroupID(r.ID.Subscription(), kernel.Text(properties, "nodeResourceGroup"))
	table := kernel.LinkOf(subnet.Body, "routeTable")
	if kernel.Text(properties, "networkProfile", "networkPlugin") == "kubenet" && table != "" &&
		!table.Group().Equal(nodeGroup) {
		if own && hasServicePrincipal(r.Body) {
			return nil // the service principal's permissions are not known here
		} else if own { // Azure/AKS#2333
			return kernel.Bad("CustomRouteTableWithUnsupportedMSIType", "Clusters using managed "+
				"identity type SystemAssigned do not support bringing your own route table. "+
				"Please see https://aka.ms/aks/customrt for more information")
		}
		if !s.authorization.Allowed(who, arm.TypeRouteTable+"/read", table) ||
			!s.authorization.Allowed(who, arm.TypeRouteTable+"/write", table) {
			return kernel.Bad("CustomRouteTableMissingPermission", "Managed identity or service "+
				"principle must be given permission to read and write to custom route table "+
				"%s. Please see https://aka.ms/aks/customrt for more information", table)
		}
	}
	if own {
		return nil // AKS joins the nodes to the subnet with the caller's permissions
	}
	// This applies only to the node subnet: a cluster whose identity has no role on its pod subnet
	// works, as az makes it.
	w := authorization.Need{Action: arm.TypeSubnet + "/read", Scope: subnet.ID}
	if !s.authorization.Allowed(who, w.Action, w.Scope) {
		return authorization.Unauthorized(who, w)
	}
	if join := authorization.Joins["subnet"]; !s.authorization.Allowed(who, join, subnet.ID) {
		scaleSet := nodeGroup + arm.ID("/providers/"+arm.TypeScaleSet+"/aks-"+
			kernel.Text(p, "name")+"-vmss")
		return authorization.Unjoined(who, authorization.Need{Action: arm.TypeScaleSet +
			"/write", Scope: scaleSet},
			map[arm.ID]string{subnet.ID: join}, subnet.ID)
	}
	return nil
}

// lockedDown reports whether a deny assignment protects a cluster's node resource group.
func (s *AKS) lockedDown(cl *cluster) bool {
	r := s.kernel.Store.Get(cl.ID)
	return r != nil && strings.EqualFold(kernel.Text(r.Body, "properties",
		"nodeResourceGroupProfile", "restrictionLevel"), "ReadOnly")
}

// denyAssignmentOf returns the deny assignment that protects a node resource group.
func denyAssignmentOf(cl *cluster) (name string, id arm.ID) {
	return "[AKS] Node resource group lockdown of " + cl.ID.Name(), cl.NodeGroup +
		arm.ID("/providers/Microsoft.Authorization/denyAssignments/"+kernel.GuidOf("deny", cl.ID))
}

// NodeGroupOf returns the node resource group of a cluster, "" if the cluster does not exist.
func (s *AKS) NodeGroupOf(cluster arm.ID) arm.ID {
	if cl := s.Clusters[cluster.Key()]; cl != nil {
		return cl.NodeGroup
	}
	return ""
}

// DenyAssignment returns the deny assignment that denies a principal writes in a scope, and its
// node resource group. A locked-down group has one, for everyone except the cluster's own identity.
// known is false if none applies.
func (s *AKS) DenyAssignment(scope arm.ID, who kernel.Principal) (name string, id, group arm.ID,
	known bool) {
	cl := s.nodeGroups[scope.Group().Key()]
	if cl == nil || !authorization.Covers(cl.NodeGroup, scope) || who.ObjectID == cl.Who.ObjectID ||
		!s.lockedDown(cl) {
		return "", "", "", false
	}
	name, id = denyAssignmentOf(cl)
	return name, id, cl.NodeGroup, true
}

// DenyAssignments returns the deny assignments that apply at a scope or are below it.
func (s *AKS) DenyAssignments(scope arm.ID) []kernel.Object {
	out := []kernel.Object{}
	for _, r := range s.kernel.Store.List(arm.TypeCluster, "") {
		cl := s.Clusters[r.ID.Key()]
		if cl == nil || !s.lockedDown(cl) || !authorization.Covers(cl.NodeGroup, scope) &&
			!authorization.Below(cl.NodeGroup, scope) {
			continue
		}
		name, id := denyAssignmentOf(cl)
		out = append(out, kernel.Object{
			"id": string(id), "name": id.Name(), "type": "Microsoft.Authorization/denyAssignments",
			"properties": kernel.Object{
				"denyAssignmentName": name, "scope": string(cl.NodeGroup),
				"isSystemProtected": true, "doNotApplyToChildScopes": false,
				"permissions": []kernel.Object{
					{"actions": []string{"*"}, "notActions": []string{"*/read"},
						"dataActions": []string{}, "notDataActions": []string{}}},
				"principals": []kernel.Object{{"id": "00000000-0000-0000-0000-000000000000",
					"type": "SystemDefined"}},
				"excludePrincipals": []kernel.Object{
					{"id": cl.Who.ObjectID, "type": "ServicePrincipal"}},
			},
		})
	}
	return out
}
