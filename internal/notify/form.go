package notify

import (
	"encoding/json"
	"strings"

	"routekeeper.dev/routekeeper/api/v1alpha1"
)

// body returns the body of the request for a message.
func body(t v1alpha1.PlaceType, m Message) ([]byte, error) {
	switch t {
	case v1alpha1.PlaceSlack:
		return json.Marshal(slack(m))
	case v1alpha1.PlaceTeams:
		return json.Marshal(teams(m))
	case v1alpha1.PlaceWebhook: // as it is
	}
	return json.Marshal(m)
}

// inert removes the special meaning from text of others: a chat must not see a mention (@everyone,
// <!channel>) or a link in the name of a resource. The zero-width space keeps the text readable.
func inert(text string) string { return inertText.Replace(text) }

var inertText = strings.NewReplacer("@", "@\u200b", "://", ":\u200b//", "www.", "www\u200b.")

// slackText escapes what Slack reads as markup in every kind of text: mentions and links are in
// angle brackets (https://docs.slack.dev/messaging/formatting-message-text).
func slackText(text string) string { return slackEscapes.Replace(inert(text)) }

var slackEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

type object = map[string]any

// slack returns a message for an incoming webhook of Slack. Its texts are plain text, in which
// Slack sees no markup; text is for notifications on phones.
func slack(m Message) object {
	plain := func(text string) object {
		return object{"type": "plain_text", "text": text, "emoji": false}
	}
	blocks := []object{{"type": "section", "text": plain(slackText(m.Title))}}
	for _, line := range m.Lines {
		blocks = append(blocks, object{"type": "section", "text": plain(slackText(line))})
	}
	if m.Page != "" {
		blocks = append(blocks, object{"type": "actions", "elements": []object{{"type": "button",
			"text": plain("Open the page"), "url": m.Page}}})
	}
	return object{"text": slackText(m.Title), "mrkdwn": false, "parse": "none",
		"link_names": false, "unfurl_links": false, "unfurl_media": false, "blocks": blocks}
}

// teams returns an adaptive card for a workflow of Teams ("When a Teams webhook request is
// received"). Its text is in text runs, which have no Markdown.
func teams(m Message) object {
	text := func(text string, more object) object {
		run := object{"type": "TextRun", "text": inert(text)}
		for key, value := range more {
			run[key] = value
		}
		return object{"type": "RichTextBlock", "inlines": []object{run}}
	}
	content := []object{text(m.Title, object{"weight": "Bolder", "size": "Medium"})}
	for _, line := range m.Lines {
		content = append(content, text(line, nil))
	}
	card := object{"$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
		"type": "AdaptiveCard", "version": "1.4", "msteams": object{"width": "Full"},
		"body": content}
	if m.Page != "" {
		card["actions"] = []object{{"type": "Action.OpenUrl", "title": "Open the page",
			"url": m.Page}}
	}
	return object{"type": "message", "attachments": []object{{
		"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": nil,
		"content": card}}}
}
