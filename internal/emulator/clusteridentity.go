package emulator

import (
	"net/http"
	"strings"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
)

// clusterPrincipal is a cluster's identity: the one it brings, or a system-assigned one of its own.
func (s *aks) clusterPrincipal(r *resource) Principal {
	for _, id := range assignedIdentities(r.body) {
		if assigned := s.kernel.store.get(id); assigned != nil {
			return identityOf(assigned)
		}
	}
	key := r.id.Key()
	return Principal{
		Name:     r.id.Name() + " identity",
		ClientID: uuid.NewSHA1(uuid.Nil, []byte("client "+key)).String(),
		ObjectID: uuid.NewSHA1(uuid.Nil, []byte("object "+key)).String(),
		Tenant:   s.kernel.tenantOf(r.id.Subscription()),
		Resource: string(r.id),
	}
}

// checkClusterIdentity refuses a cluster whose identity lacks what it needs on the network it
// brings. A system-assigned identity does not exist before its cluster, so nobody can have given it
// a role: with kubenet it may not bring a table.
func (s *aks) checkClusterIdentity(r *resource) *failure {
	for _, p := range listAt(objectAt(r.body, "properties"), "agentPoolProfiles") {
		if f := s.checkPoolSubnet(r, p); f != nil {
			return f
		}
	}
	return nil
}

// checkPoolSubnet is checkClusterIdentity for one pool.
func (s *aks) checkPoolSubnet(r *resource, p object) *failure {
	subnet := s.kernel.store.get(arm.ID(text(p, "vnetSubnetID")))
	if subnet == nil || !s.opts.CheckClusterIdentity {
		return nil
	}
	properties := objectAt(r.body, "properties")
	own, who := !hasUserIdentity(r.body), s.clusterPrincipal(r)
	nodeGroup := arm.GroupID(r.id.Subscription(), text(properties, "nodeResourceGroup"))
	table := linkOf(subnet.body, "routeTable")
	if text(objectAt(properties, "networkProfile"), "networkPlugin") == "kubenet" && table != "" &&
		!table.Group().Equal(nodeGroup) {
		if own { // Azure/AKS#2333
			return fail(http.StatusBadRequest, "CustomRouteTableWithUnsupportedMSIType",
				"Clusters using managed identity type SystemAssigned do not support bringing "+
					"your own route table. Please see https://aka.ms/aks/customrt for more "+
					"information")
		}
		if !s.authorization.allowed(who, arm.TypeRouteTable+"/read", table) ||
			!s.authorization.allowed(who, arm.TypeRouteTable+"/write", table) {
			return fail(http.StatusBadRequest, "CustomRouteTableMissingPermission",
				"Managed identity or service principle must be given permission to read and "+
					"write to custom route table %s. Please see https://aka.ms/aks/customrt for "+
					"more information", table)
		}
	}
	if own {
		return nil // AKS joins its nodes as who asked for the cluster
	}
	for _, field := range []string{"vnetSubnetID", "podSubnetID"} {
		subnet := s.kernel.store.get(arm.ID(text(p, field)))
		if subnet == nil {
			continue
		}
		w := wish{action: arm.TypeSubnet + "/read", scope: subnet.id}
		if !s.authorization.allowed(who, w.action, w.scope) {
			return unauthorized(who, w)
		}
		if join := joins["subnet"]; !s.authorization.allowed(who, join, subnet.id) {
			scaleSet := nodeGroup + arm.ID("/providers/"+arm.TypeScaleSet+"/aks-"+text(p, "name")+
				"-vmss")
			return unjoined(who, wish{action: arm.TypeScaleSet + "/write", scope: scaleSet},
				map[arm.ID]string{subnet.id: join}, subnet.id)
		}
	}
	return nil
}

// lockedDown reports whether only the cluster may change its node resource group.
func (s *aks) lockedDown(cl *cluster) bool {
	r := s.kernel.store.get(cl.id)
	return r != nil &&
		strings.EqualFold(text(objectAt(r.body, "properties", "nodeResourceGroupProfile"),
			"restrictionLevel"), "ReadOnly")
}

// denyAssignmentOf names the deny assignment that locks a node resource group down.
func denyAssignmentOf(cl *cluster) (name string, id arm.ID) {
	guid := uuid.NewSHA1(uuid.Nil, []byte("deny "+cl.id.Key())).String()
	return "[AKS] Node resource group lockdown of " + cl.id.Name(), cl.nodeGroup +
		arm.ID("/providers/Microsoft.Authorization/denyAssignments/"+guid)
}

// nodeGroupOf is the node resource group of a cluster, "" where there is no such cluster.
func (s *aks) nodeGroupOf(cluster arm.ID) arm.ID {
	if cl := s.clusters[cluster.Key()]; cl != nil {
		return cl.nodeGroup
	}
	return ""
}

// denyAssignment is the one that locks a scope down for all but the cluster's own identity.
func (s *aks) denyAssignment(scope arm.ID, who Principal) (name string, id, group arm.ID,
	known bool) {
	cl := s.nodeGroups[scope.Group().Key()]
	if cl == nil || !covers(cl.nodeGroup, scope) || who.ObjectID == cl.who.ObjectID ||
		!s.lockedDown(cl) {
		return "", "", "", false
	}
	name, id = denyAssignmentOf(cl)
	return name, id, cl.nodeGroup, true
}

// denyAssignments are the ones that count at a scope, or lie below it.
func (s *aks) denyAssignments(scope arm.ID) []object {
	out := []object{}
	for _, r := range s.kernel.store.list(arm.TypeCluster, "") {
		cl := s.clusters[r.id.Key()]
		if cl == nil || !s.lockedDown(cl) || !covers(cl.nodeGroup, scope) &&
			!below(cl.nodeGroup, scope) {
			continue
		}
		name, id := denyAssignmentOf(cl)
		out = append(out, object{
			"id": string(id), "name": id.Name(), "type": "Microsoft.Authorization/denyAssignments",
			"properties": object{
				"denyAssignmentName": name, "scope": string(cl.nodeGroup),
				"isSystemProtected": true, "doNotApplyToChildScopes": false,
				"permissions": []object{
					{"actions": []string{"*"}, "notActions": []string{"*/read"},
						"dataActions": []string{}, "notDataActions": []string{}}},
				"principals": []object{{"id": "00000000-0000-0000-0000-000000000000",
					"type": "SystemDefined"}},
				"excludePrincipals": []object{{"id": cl.who.ObjectID, "type": "ServicePrincipal"}},
			},
		})
	}
	return out
}
