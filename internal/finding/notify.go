package finding

import "slices"

// Codes of messages to people.
const (
	NotifyFailed   Code = "notify-failed"
	PauseForgotten Code = "pause-forgotten"
	Silenced       Code = "silenced"
	SilenceEnded   Code = "silence-ended"
)

// notifying are the codes of messages to people, and of what people leave behind.
var notifying = []Description{
	{NotifyFailed, Warning, "A place does not take messages",
		"Slack, Teams or a webhook of the Notify document refuses messages, or does not answer. " +
			"Routes are still managed. The news waits and is sent later; what does not fit into " +
			"the queue is dropped, and the next message says how much.",
		"Check the URL in the file or environment variable that the Notify document names. " +
			"routekeeper notify test sends a message to every place and says what happens."},
	{PauseForgotten, Warning, "A pause has lasted for more than a day",
		"Nothing is repaired during a pause. A pause that a person forgot leaves the clusters " +
			"without protection.",
		"End the pause with routekeeper pause end, or find out who still needs it."},
	{Silenced, Info, "A person silenced a finding",
		"The silenced finding stays visible, but nothing calls for attention: no message, no " +
			"count on the page, no red. Repairs go on. The silence ends at its time, when the " +
			"finding becomes worse, or when a person ends it.",
		"routekeeper silence end ends it."},
	{SilenceEnded, Info, "A person ended a silence or a pause",
		"The finding that was silenced calls for attention again, or the paused cluster is " +
			"repaired again. The message says for a day who ended it.",
		"Nothing is to be done."},
}

// deciding are the codes of findings that wait for the decision of a person.
var deciding = []Code{AssociationOther, DeletesWithheld, UpdatesWithheld, PrefixTaken, TableUnknown,
	RoutesOrphaned, ClustersOverlap, ChangesLimited, ChangesWithheld, PauseForgotten}

// Decides reports whether a finding with the code waits for the decision of a person.
func Decides(code Code) bool { return slices.Contains(deciding, code) }

// Silence is how a person silenced a finding: it stays visible, but nothing calls for attention.
type Silence struct {
	Until  string `json:"until"` // RFC 3339
	Reason string `json:"reason"`
	By     string `json:"by"`
}
