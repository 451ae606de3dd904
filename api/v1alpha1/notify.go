package v1alpha1

import _ "embed"

// KindNotify is the kind of the document that says who gets word of errors and repairs. It is about
// a keeper as a whole, so it has a document of its own next to the ClusterRoutes.
const KindNotify = "Notify"

// NotifySchema is the JSON Schema of Notify (draft 2020-12), for editors.
//
//go:embed notify.schema.json
var NotifySchema []byte

// Notify says where a keeper sends messages.
type Notify struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Spec       NotifySpec `json:"spec"`
}

// NotifySpec are the places, and what all messages have in common.
type NotifySpec struct {
	// Page is the address of the keeper's page: messages link to it. Empty: no link.
	Page   string  `json:"page,omitempty"`
	Places []Place `json:"places"`
}

// Place is where messages go.
type Place struct {
	Name string    `json:"name"`
	Type PlaceType `json:"type"`
	// URLFile is the file with the webhook's URL, relative to the config. URLEnv is the environment
	// variable with it. The URL is a secret, so it is in neither the config nor a flag.
	URLFile string `json:"urlFile,omitempty"`
	URLEnv  string `json:"urlEnv,omitempty"`
	// Send are the kinds of news to send. Empty: all.
	Send []News `json:"send,omitempty"`
}

// PlaceType is the form of the messages.
type PlaceType string

// Slack is an incoming webhook, Teams a workflow for webhook requests. Webhook gets JSON.
const (
	PlaceSlack   PlaceType = "Slack"
	PlaceTeams   PlaceType = "Teams"
	PlaceWebhook PlaceType = "Webhook"
)

// News is a kind of news.
type News string

// Errors are new and resolved errors. Repairs are route tables that were put back on subnets.
// Conflicts are other writers that undo changes. Decisions are findings that a person must decide.
const (
	NewsErrors    News = "Errors"
	NewsRepairs   News = "Repairs"
	NewsConflicts News = "Conflicts"
	NewsDecisions News = "Decisions"
)
