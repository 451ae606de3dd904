package apply

import (
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// These match, in Azure's refusal, the action that the identity lacks, the scope, and the identity.
// AuthorizationFailed names them directly. LinkedAuthorizationFailed names an allowed action first,
// so the missing one is read behind "does not have permission".
var (
	refusedAction = lazy.Regexp(
		`does not have (?:authorization|permission) to perform action(?:\(s\))? '([^']+)'`)
	refusedScope = lazy.Regexp(
		`does not have .* (?:over scope|on the linked scope\(s\)) '(/[^',]+)`)
	refusedWho = lazy.Regexp(`with object id '([^']+)'`)
)

// refused reports a write that Azure refuses. The finding names the harm first, then what refuses
// the write, and the command that removes or shows the cause.
func refused(id arm.ID, cluster, harm string, fault *azure.Error) finding.Finding {
	report := func(cause string) finding.Finding {
		return finding.New(finding.WriteRefused, cluster, string(id),
			"%s and cannot be repaired: %s", harm, cause)
	}
	action := refusedAction().FindStringSubmatch(fault.Message)
	switch {
	case action != nil:
		f := report("the identity lacks " + action[1]).With(fault.Error())
		scope := refusedScope().FindStringSubmatch(fault.Message)
		who := refusedWho().FindStringSubmatch(fault.Message)
		if scope == nil || who == nil {
			return f.WithFix("az role assignment list --scope %s --include-inherited", id)
		}
		return f.WithFix("az role assignment create --assignee-object-id %s "+
			"--assignee-principal-type ServicePrincipal --role 'Network Contributor' --scope %s",
			who[1], scope[1])
	case fault.Code == "ScopeLocked":
		return report("a lock forbids the write").With(fault.Error()).
			WithFix("az lock list --subscription %s --resource-group %s -o table",
				id.Subscription(), id.ResourceGroup())
	case fault.Code == "RequestDisallowedByPolicy":
		return report("a policy forbids the write").With(fault.Error()).
			WithFix("az policy assignment list --scope %s --disable-scope-strict-match", id.Group())
	}
	return report(fault.Reason()).WithFix("az role assignment list --scope %s --include-inherited",
		id)
}
