package prove

import (
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/iac/generate"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Rights are what this login may do in the throwaway group, and which calls needed which right.
type Rights struct {
	// Own are its permissions as Azure lists them. Unread says why they could not be read.
	Own    []inventory.Permission
	Unread string
	// Used is the answer to a call that needs an action, by the action. Refused are all calls that
	// were answered with 403.
	Used    map[string]Answer
	Refused []Refusal
}

// Refusal is a call that was answered with 403, with the actions that the answer names.
type Refusal struct {
	Call    string
	Actions []string
	Answer  Answer
}

// May reports whether an action is granted.
func (r Rights) May(action string) bool {
	return inventory.Rights{Permissions: r.Own}.May(action)
}

// refused returns the first refusal that names an action.
func (r Rights) refused(action string) (Refusal, bool) {
	for _, refusal := range r.Refused {
		if contains(refusal.Actions, action) {
			return refusal, true
		}
	}
	return Refusal{}, false
}

// LabActions returns the actions that the throwaway group needs in addition to the keeper's.
func LabActions() []generate.KeeperAction {
	return []generate.KeeperAction{
		{Action: "Microsoft.Resources/subscriptions/resourceGroups/read",
			Why: "to check that it is gone"},
		{Action: "Microsoft.Resources/subscriptions/resourceGroups/write",
			Why: "to make the group"},
		{Action: "Microsoft.Resources/subscriptions/resourceGroups/delete", Why: "to delete it"},
		{Action: "Microsoft.Resources/subscriptions/resourceGroups/resources/read",
			Why: "to check that nothing else is in it"},
		{Action: "Microsoft.Network/virtualNetworks/write", Why: "to make the network"},
		{Action: "Microsoft.Network/virtualNetworks/subnets/join/action",
			Why: "to make the interface"},
		{Action: "Microsoft.Network/networkSecurityGroups/write",
			Why: "to make the security group"},
		{Action: "Microsoft.Network/networkInterfaces/write", Why: "to make the interface"},
		{Action: "Microsoft.Network/networkInterfaces/delete", Why: "to delete it"},
		{Action: "Microsoft.Network/routeTables/delete",
			Why: "to check that the delete of one in use is refused"},
	}
}

// Role has the actions of a custom role for running the trials with exactly the generated rights.
func Role() []string {
	var all []string
	for _, a := range slices.Concat(keeperActions(), LabActions()) {
		all = append(all, a.Action)
	}
	return all
}

func keeperActions() []generate.KeeperAction {
	var all []generate.KeeperAction
	for _, role := range generate.KeeperRoles() {
		all = append(all, role.Actions...)
	}
	return all
}

func contains(actions []string, action string) bool {
	return slices.ContainsFunc(actions, func(a string) bool { return strings.EqualFold(a, action) })
}

// notInGroup are the actions that no call in the throwaway group needs, and why.
var notInGroup = map[string]string{
	"Microsoft.Authorization/policyAssignments/read":                   "it needs a list of the subscription",
	"Microsoft.Authorization/policyDefinitions/read":                   "it needs a list of the subscription",
	"Microsoft.Authorization/policySetDefinitions/read":                "it needs an initiative",
	"Microsoft.Authorization/policyExemptions/read":                    "it needs a list of the subscription",
	"Microsoft.Compute/virtualMachineScaleSets/networkInterfaces/read": "it needs a scale set",
	"Microsoft.Network/natGateways/join/action":                        "it needs a NAT gateway",
	"Microsoft.Network/azureFirewalls/read":                            "it needs a firewall",
	"Microsoft.Network/loadBalancers/read":                             "it needs a load balancer",
	"Microsoft.Network/serviceEndpointPolicies/join/action": "it needs a service endpoint " +
		"policy",
}

func rightFacts() []Fact {
	facts := []Fact{{
		Name: "rights-suffice", Family: familyRights, Trial: trialRights,
		Question: "Do the generated rights suffice for what the keeper does?",
		Expected: "yes", Source: "iac generate and its tests",
		Judged: "all calls of the trials, if the only role of this login is that of --print-role",
		Follows: "The generated role lacks an action: add the one that is named, and send the " +
			"recording.",
	}}
	for _, a := range keeperActions() {
		_, path, _ := strings.Cut(a.Action, "/")
		facts = append(facts, Fact{
			Name:   "right-" + strings.ReplaceAll(path, "/", "-"), // right-routeTables-write
			Family: familyRights, Trial: trialRights,
			Question: "Does the keeper need " + a.Action + "?",
			Expected: "yes: " + a.Why, Source: "iac generate and its tests",
			Judged: "a call that needs it, and whether this login has the permission",
			Follows: "Nothing breaks: the generated role grants more than necessary. Send the " +
				"recording, so that the action can be removed.",
			action: a.Action,
		})
	}
	return facts
}

func judgeSuffice(o Observed) Judgement {
	r := o.Rights
	lacks := ""
	for _, refusal := range r.Refused {
		for _, action := range refusal.Actions {
			if !contains(Role(), action) {
				return Judgement{Differs, refusal.Call + " takes " + action + " as well"}
			}
			lacks = action
		}
	}
	if lacks != "" {
		return Judgement{Untested, "this login lacks " + lacks}
	}
	if why, failed := o.Failed[trialRights]; failed {
		return Judgement{Untested, why}
	}
	if r.Unread != "" {
		return Judgement{Untested, "its permissions could not be read: " + r.Unread}
	}
	for _, p := range r.Own {
		for _, action := range p.Actions {
			if !contains(Role(), action) {
				return Judgement{Untested, "this login has more rights (" + action +
					"): log in with the role of --print-role"}
			}
		}
	}
	return Judgement{Confirmed, "every call was accepted"}
}

// judgeRight judges the fact about an action, or, without one, whether the rights suffice.
func judgeRight(o Observed, action string) Judgement {
	if action == "" {
		return judgeSuffice(o)
	}
	r := o.Rights
	refusal, refused := r.refused(action)
	granted := r.May(action)
	used, isUsed := r.Used[action]
	switch {
	case refused && granted:
		return Judgement{Untested, "refused although its permissions grant it: a new role can " +
			"take 10 minutes to take effect"}
	case refused:
		return Judgement{Confirmed, refusal.Call + " without it: " + refusal.Answer.Brief()}
	case !isUsed:
		if why := notInGroup[action]; why != "" {
			return Judgement{Untested, why}
		}
		if why, failed := o.Failed[trialRights]; failed {
			return Judgement{Untested, why}
		}
		return Judgement{Untested, "no call was made that needs it"}
	case !used.OK():
		return Judgement{Untested, "the call that needs it failed: " + used.String()}
	case r.Unread != "":
		return Judgement{Untested, "the permissions of this login could not be read: " + r.Unread}
	case !granted:
		return Judgement{Differs, "the call was accepted without it"}
	}
	return Judgement{Untested, "this login has it, and the call was accepted; only a login " +
		"without it can show more"}
}
