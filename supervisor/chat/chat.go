// Package chat turns messages into the text of a prompt, with the checkpoint's own template, and the tokens of an answer
// back into reasoning and content. It must not import gin, supervisor/openai or anything under worker.
package chat
