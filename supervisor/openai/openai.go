// Package openai is the wire form of the OpenAI chat-completions API: the request as it is read, the answer, the error
// object and the event stream. It knows nothing of gin, of models or of how text is made.
package openai

// Paths and ids of https://platform.openai.com/docs/api-reference/chat; the key "lilypad" holds our own extension.

// ChatCompletion is the answer to a request without stream.
type ChatCompletion struct {
	ID          string   `json:"id"`
	Object      string   `json:"object"` // "chat.completion"
	Created     int64    `json:"created"`
	Model       string   `json:"model"`
	Fingerprint string   `json:"system_fingerprint"`
	Choices     []Choice `json:"choices"`
	Usage       Usage    `json:"usage"`
	Lilypad     *Lilypad `json:"lilypad,omitempty"`
}

// Choice is one alternative of an answer; there is always one.
type Choice struct {
	Index        int     `json:"index"`
	Message      Message `json:"message"`
	Logprobs     *string `json:"logprobs"` // always null
	FinishReason string  `json:"finish_reason"`
}

// Message is what the model said.
type Message struct {
	Role      string  `json:"role"`
	Content   string  `json:"content"`
	Reasoning string  `json:"reasoning_content,omitempty"`
	Refusal   *string `json:"refusal"` // always null
}

// The finish reasons that we send. The contract allows no other: clients take an unknown one for success.
const (
	FinishStop   = "stop"
	FinishLength = "length"
)

// Usage counts tokens. Work that a recovery repeats is counted once.
type Usage struct {
	PromptTokens     int               `json:"prompt_tokens"`
	CompletionTokens int               `json:"completion_tokens"`
	TotalTokens      int               `json:"total_tokens"`
	PromptDetails    PromptDetails     `json:"prompt_tokens_details"`
	Completion       CompletionDetails `json:"completion_tokens_details"`
}

// PromptDetails says how many prompt tokens came from a cached state.
type PromptDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

// CompletionDetails says how many of the completion tokens were reasoning.
type CompletionDetails struct {
	ReasoningTokens int `json:"reasoning_tokens"`
}

// Lilypad is our extension block on an answer, on the last chunk and on the usage chunk of a stream: the truth about who
// served it, since headers are fixed before the first token.
type Lilypad struct {
	ServedBy    string     `json:"served_by"` // "local"
	Incarnation int        `json:"incarnation"`
	Recoveries  []Recovery `json:"recoveries"` // never null
	Replayed    int        `json:"replayed_tokens"`
	Seed        uint64     `json:"seed"`
}

// Recovery tells of one worker that died during the generation and was replaced.
type Recovery struct {
	Cause       string `json:"cause"`         // how the worker died
	Incarnation int    `json:"incarnation"`   // of the worker that took over
	AfterTokens int    `json:"output_tokens"` // tokens the client had when it died
	Exact       bool   `json:"exact"`         // false if the new worker's arithmetic may differ in the last bits
}

// Model is one entry of GET /v1/models.
type Model struct {
	ID      string `json:"id"`
	Object  string `json:"object"` // "model"
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	Context int    `json:"context_length"`
}

// ModelList is the answer of GET /v1/models.
type ModelList struct {
	Object string  `json:"object"` // "list"
	Data   []Model `json:"data"`
}
