package authorization

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// policyNames are the properties of policies and locks.
const policyNames = " policyType mode displayName metadata# policyRule# parameters# " +
	"policyDefinitionId notScopes enforcementMode nonComplianceMessages message expiresOn " +
	"exemptionCategory policyAssignmentId policyDefinitionReferenceIds resourceSelectors# " +
	"overrides# versions level notes owners applicationId"

// Some of Azure's built-in policies of networks, as Azure/azure-policy has them.
//
//go:embed builtinpolicies.json
var builtInPolicies []byte

// builtInDefinitions returns them, by their IDs' keys.
var builtInDefinitions = sync.OnceValue(func() map[string]*kernel.Resource {
	var docs []kernel.Object
	if err := json.Unmarshal(builtInPolicies, &docs); err != nil {
		panic(err) // it is part of the program
	}
	all := map[string]*kernel.Resource{}
	for _, doc := range docs {
		id := arm.ID(kernel.Text(doc, "id"))
		all[id.Key()] = &kernel.Resource{ID: id, Body: doc}
	}
	return all
})

// definitionOf returns a policy or a set of policies; nil if it is not known here.
func definitionOf(s *Authorization, id arm.ID) *kernel.Resource {
	if r := s.kernel.Store.Get(id); r != nil {
		return r
	}
	return builtInDefinitions()[id.Key()]
}

// builtInPolicy reports whether an ID can be that of a built-in policy or set of policies: a GUID
// without a subscription. The list of them is not known here, and most have no effect.
func builtInPolicy(id arm.ID) bool {
	kind, name, found := strings.Cut(strings.TrimPrefix(strings.ToLower(string(id)),
		"/providers/microsoft.authorization/policy"), "/")
	return found && strings.HasPrefix(strings.ToLower(string(id)), "/providers/") &&
		(kind == "definitions" || kind == "setdefinitions") && IsGUID(name)
}

// signPolicy records the creator of a policy or an assignment, and its last changer: in its
// metadata (recorded since 2020-09-01; values that a client sends are ignored) and, since
// 2021-06-01, in systemData.
func signPolicy(c *kernel.Call, r, old *kernel.Resource) {
	p := r.Properties()
	metadata := kernel.ObjectAt(p, "metadata")
	if metadata == nil {
		metadata = kernel.Object{}
		p["metadata"] = metadata
	}
	now := time.Now().UTC().Format("2006-01-02T15:04:05.9999999Z")
	kind := "User"
	if c.Who.Resource != "" || c.Who.Secret != "" {
		kind = "Application"
	}
	made := kernel.Object{"createdBy": c.Who.Name, "createdByType": kind, "createdAt": now}
	if old != nil && kernel.ObjectAt(old.Body, "systemData") != nil {
		made = kernel.Clone(kernel.ObjectAt(old.Body, "systemData"))
	}
	made["lastModifiedBy"], made["lastModifiedByType"] = c.Who.Name, kind
	made["lastModifiedAt"] = now
	r.Body["systemData"] = made
	if old == nil {
		metadata["createdBy"], metadata["createdOn"] = c.Who.ObjectID, now
		metadata["updatedBy"], metadata["updatedOn"] = nil, nil
		return
	}
	was := kernel.ObjectAt(old.Body, "properties", "metadata")
	metadata["createdBy"], metadata["createdOn"] = was["createdBy"], was["createdOn"]
	metadata["updatedBy"], metadata["updatedOn"] = c.Who.ObjectID, now
}

// show leaves out fields that policies do not have, and adds the IDs of an assignment's identities.
func (s policies) show(r *kernel.Resource, doc kernel.Object, version string) {
	kernel.ShowBare(r, doc, version)
	s.entra.ShowAssigned(doc)
}

// call answers for built-in policies, and refuses paths inside a policy: it has no children.
func (s policies) call(c *kernel.Call) (kernel.Reply, *kernel.Failure, bool) {
	if r := builtInDefinitions()[c.Key()]; r != nil &&
		c.Method == http.MethodGet {
		return kernel.OK(r.Body), nil, true
	}
	for i, word := range c.Path {
		if !strings.EqualFold(word, "policyDefinitions") || i+3 != len(c.Path) {
			continue
		}
		if i == 2 { // recorded, of a caller with all rights
			return kernel.Reply{}, Unauthorized(c.Who, Need{
				Action: TypePolicyDefinition + "/" + c.Path[4] + "/read",
				Scope:  c.ID(4),
			}), true
		}
		return kernel.Reply{}, kernel.Fail(http.StatusNotFound, "ResourceTypeNotSupported",
			"Unsupported resource type: '%s/%s'.", TypePolicyDefinition, c.Path[i+2]), true
	}
	return kernel.Reply{}, nil, false
}
