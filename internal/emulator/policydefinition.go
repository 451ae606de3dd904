package emulator

import (
	"net/http"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// builtInPolicy reports whether an ID is that of a policy, or a set of policies, which Azure
// brings: a GUID that belongs to no subscription. Which ones there are is not known here, and none
// has an effect.
func builtInPolicy(id arm.ID) bool {
	kind, name, found := strings.Cut(strings.TrimPrefix(strings.ToLower(string(id)),
		"/providers/microsoft.authorization/policy"), "/")
	return found && strings.HasPrefix(strings.ToLower(string(id)), "/providers/") &&
		(kind == "definitions" || kind == "setdefinitions") && isGUID(name)
}

// signPolicy notes who made a policy or an assignment, and who changed it last: in its metadata
// (recorded since 2020-09-01; what a client sends there does not count) and, since 2021-06-01, in
// systemData.
func signPolicy(c *call, r, old *resource) {
	p := objectAt(r.body, "properties")
	metadata := objectAt(p, "metadata")
	if metadata == nil {
		metadata = object{}
		p["metadata"] = metadata
	}
	now := time.Now().UTC().Format("2006-01-02T15:04:05.9999999Z")
	kind := "User"
	if c.who.Resource != "" || c.who.Secret != "" {
		kind = "Application"
	}
	made := object{"createdBy": c.who.Name, "createdByType": kind, "createdAt": now}
	if old != nil && objectAt(old.body, "systemData") != nil {
		made = clone(objectAt(old.body, "systemData"))
	}
	made["lastModifiedBy"], made["lastModifiedByType"] = c.who.Name, kind
	made["lastModifiedAt"] = now
	r.body["systemData"] = made
	if old == nil {
		metadata["createdBy"], metadata["createdOn"] = c.who.ObjectID, now
		metadata["updatedBy"], metadata["updatedOn"] = nil, nil
		return
	}
	was := objectAt(old.body, "properties", "metadata")
	metadata["createdBy"], metadata["createdOn"] = was["createdBy"], was["createdOn"]
	metadata["updatedBy"], metadata["updatedOn"] = c.who.ObjectID, now
}

// showPolicy leaves out what policies do not have, and says who its identities are.
func (s *authorization) showPolicy(r *resource, doc object, version string) {
	showBare(r, doc, version)
	s.kernel.showAssigned(doc)
}

// showAssigned adds to a document who the identities are that it was given.
func (k *kernel) showAssigned(doc object) {
	assigned := objectAt(doc, "identity", "userAssignedIdentities")
	for id := range assigned {
		if own := k.store.get(arm.ID(id)); own != nil {
			who := identityOf(own)
			assigned[id] = object{"clientId": who.ClientID, "principalId": who.ObjectID}
		}
	}
}

// policyCall refuses what would be inside a policy: there is nothing.
func (s *authorization) policyCall(c *call) (reply, *failure, bool) {
	for i, word := range c.path {
		if !strings.EqualFold(word, "policyDefinitions") || i+3 != len(c.path) {
			continue
		}
		if i == 2 { // recorded, of somebody who may do everything
			return reply{}, unauthorized(c.who, wish{
				action: typePolicyDefinition + "/" + c.path[4] + "/read",
				scope:  arm.ID("/" + strings.Join(c.path[:4], "/")),
			}), true
		}
		return reply{}, fail(http.StatusNotFound, "ResourceTypeNotSupported",
			"Unsupported resource type: '%s/%s'.", typePolicyDefinition, c.path[i+2]), true
	}
	return reply{}, nil, false
}
