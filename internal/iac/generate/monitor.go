package generate

import (
	"routekeeper.dev/routekeeper/internal/arm"
)

// Monitor says what code to write for Azure Monitor: alert rules on the activity log, and an action
// group that posts to a keeper.
type Monitor struct {
	// Name is the name of the created resources, ShortName that of the action group, Receiver that
	// of its webhook.
	Name, ShortName, Receiver, Description string
	Operations                             []string
	Parts                                  []MonitorPart
	// Webhook says how the webhook logs in. The zero value is a plain webhook, with a secret in its
	// address.
	Webhook MonitorWebhook
}

// MonitorPart is what is watched in one subscription. Bicep needs no Group, it is deployed to one.
type MonitorPart struct {
	Subscription, Group string
	Scopes              []arm.ID
}

// MonitorWebhook has the login of a secure webhook; Tenant may be empty.
type MonitorWebhook struct{ ObjectID, Audience, Tenant string }

// Terraform writes the code for the azurerm provider, which supports one operation per rule.
func (m Monitor) Terraform() ([]Output, error) {
	return write("terraform/monitor", []string{"monitor.tf"}, m)
}

// Bicep writes the code as one file that is deployed to a resource group of each subscription.
func (m Monitor) Bicep() ([]Output, error) {
	return write("bicep/monitor", []string{"monitor.bicep"}, m)
}
