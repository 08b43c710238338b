package web

import (
	"context"
	"maps"
	"net/http"
)

// None is the data of an answer without a body.
type None struct{}

// Meta stands beside the data of a list (decisions.md section 1).
type Meta struct {
	Total  int64 `json:"total"`
	Offset int64 `json:"offset"`
	Limit  int64 `json:"limit"`

	NextOffset *int64 `json:"next_offset,omitempty" doc:"Where to go on: the page ended before its limit because it was large."`
}

// Reply is an answer whose status, headers or metadata the handler chooses.
type Reply[T any] struct {
	Status   int // 0 means 200; 204 has no body
	Header   http.Header
	Cookies  []*http.Cookie
	Data     T
	Meta     *Meta
	Warnings []string
}

// Page is the part of an input that reads offset and limit; embed it.
type Page struct {
	Offset int64 `query:"offset" minimum:"0" default:"0" doc:"How many items to pass over."`
	Limit  int64 `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many items at the most."`
}

// Created is 201 with the record and its address.
func Created[T any](location string, data T) *Reply[T] {
	return &Reply[T]{Status: http.StatusCreated, Header: http.Header{"Location": {location}}, Data: data}
}

// NoContent is 204.
func NoContent() *Reply[None] { return &Reply[None]{Status: http.StatusNoContent} }

// List is 200 with items, never null, and the metadata of the page. One that
// ended before its limit, although there are more, says where to go on.
func List[T any](items []T, total int64, page Page) *Reply[[]T] {
	if items == nil {
		items = []T{}
	}
	meta := &Meta{Total: total, Offset: page.Offset, Limit: page.Limit}
	if next := page.Offset + int64(len(items)); int64(len(items)) < page.Limit && len(items) > 0 && next < total {
		meta.NextOffset = &next
	}
	return &Reply[[]T]{Data: items, Meta: meta}
}

// ListAll is List for items that are all in memory: it cuts the page out.
func ListAll[T any](items []T, page Page) *Reply[[]T] {
	from := min(page.Offset, int64(len(items)))
	to := min(from+page.Limit, int64(len(items)))
	return List(items[from:to], int64(len(items)), page)
}

func (r *Reply[T]) writeHeader(ctx context.Context) {
	w := stateFrom(ctx).w
	maps.Copy(w.Header(), r.Header)
	for _, cookie := range r.Cookies {
		http.SetCookie(w, cookie)
	}
}
