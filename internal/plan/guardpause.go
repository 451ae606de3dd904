package plan

import (
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// longestTag is how far in the future the time in a network's GuardPauseTag may be, as for every
// pause.
const longestTag = 7 * 24 * time.Hour

// pausedUntil reads the value of a network's GuardPauseTag. It returns until when the tag pauses
// the guard, or why it does not.
func pausedUntil(value string, now time.Time) (until time.Time, wrong string) {
	until, err := time.Parse(time.RFC3339, value)
	switch {
	case err != nil:
		wrong = "it is not a time such as 2030-01-31T18:00:00Z"
	case !until.After(now):
		wrong = "this time has passed"
	case until.Sub(now) > longestTag:
		wrong = "this is more than 7 days ahead"
	}
	return until, wrong
}

// PausedByTag says why the network of a subnet pauses its guard, according to its last read, or
// returns "".
func PausedByTag(subnet *inventory.Subnet, now time.Time) string {
	if subnet == nil || subnet.GuardPausedUntil == nil {
		return ""
	}
	until, wrong := pausedUntil(*subnet.GuardPausedUntil, now)
	if wrong != "" {
		return ""
	}
	return "it is not put back until " + endOf(until) + ": network " +
		subnet.ID.Parent().Short() + " has the tag " + inventory.GuardPauseTag
}

func endOf(pause time.Time) string { return pause.UTC().Format("2006-01-02 15:04:05 UTC") }

// tagPauses says why the network of a subnet pauses its guard, or returns "". It reports each tag
// once for each config: people who may write tags can stop repairs with it.
func (p *Planner) tagPauses(v *clusterState, id arm.ID, told map[string]bool) string {
	subnet := p.s.Subnet(id)
	if subnet == nil || subnet.GuardPausedUntil == nil {
		return ""
	}
	network, value := subnet.ID.Parent(), *subnet.GuardPausedUntil
	until, wrong := pausedUntil(value, p.s.Taken)
	key := v.name + " " + network.Key()
	first := !told[key]
	told[key] = true
	if wrong != "" {
		if first {
			p.add(finding.New(finding.GuardTagInvalid, v.name, string(network), "the tag %s of "+
				"network %s does not pause the guard of %s: its value is %q; %s",
				inventory.GuardPauseTag, network.Short(), v.name, value, wrong).
				WithAdvice("remove the tag, or set it to a time at most 7 days ahead"))
		}
		return ""
	}
	if first {
		p.add(finding.New(finding.GuardPaused, v.name, string(network), "what the subnets of "+
			"network %s lose is not put back for %s until %s, because the network has the tag %s",
			network.Short(), v.name, endOf(until), inventory.GuardPauseTag).
			WithAdvice("remove the tag to end this"))
	}
	return PausedByTag(subnet, p.s.Taken)
}
