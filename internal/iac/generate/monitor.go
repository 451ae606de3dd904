package generate

import (
	"routekeeper.dev/routekeeper/internal/arm"
)

// Monitor says what code to write for Azure Monitor: alert rules on the activity log, and an action
// group that posts to a keeper.
type Monitor struct {
	// Name is that of what is made, ShortName the action group's, Receiver its webhook's.
	Name, ShortName, Receiver, Description string
	Operations                             []string
	Parts                                  []MonitorPart
	// Webhook is how the listener knows its caller: nothing in it is a plain webhook, with a secret
	// in its address.
	Webhook MonitorWebhook
}

// MonitorPart is what is watched in one subscription. Bicep needs no Group, it is deployed to one.
type MonitorPart struct {
	Subscription, Group string
	Scopes              []arm.ID
}

// MonitorWebhook is what a secure webhook logs in with and for; Tenant may be empty.
type MonitorWebhook struct{ ObjectID, Audience, Tenant string }

// Terraform writes it for the azurerm provider, which takes one operation a rule.
func (m Monitor) Terraform() ([]Output, error) {
	return write("terraform/monitor", []string{"monitor.tf"}, m)
}

// Bicep writes it as one file that is deployed to a resource group of each subscription.
func (m Monitor) Bicep() ([]Output, error) {
	return write("bicep/monitor", []string{"monitor.bicep"}, m)
}
