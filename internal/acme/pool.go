package acme

import (
	"container/list"
	"sync"
)

// maxClients bounds the clients a Pool keeps, and so its memory and sockets.
const maxClients = 64

// Pool keeps a Client per Directory, so that accounts at the same authority
// share connections, nonces and the directory. It is safe for concurrent use.
type Pool struct {
	opts Options

	mu      sync.Mutex
	clients map[Directory]*list.Element
	recent  *list.List // of pooled, the most recently used first
}

type pooled struct {
	dir    Directory
	client *Client
}

// NewPool makes a Pool whose clients are made with opts.
func NewPool(opts Options) *Pool {
	return &Pool{opts: opts, clients: map[Directory]*list.Element{}, recent: list.New()}
}

// Client gives the client of dir. The error is that of NewClient.
func (p *Pool) Client(dir Directory) (*Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e, ok := p.clients[dir]; ok {
		p.recent.MoveToFront(e)
		return e.Value.(pooled).client, nil
	}
	client, err := NewClient(dir, p.opts)
	if err != nil {
		return nil, err
	}
	p.clients[dir] = p.recent.PushFront(pooled{dir, client})
	if p.recent.Len() > maxClients {
		p.drop(p.recent.Back())
	}
	return client, nil
}

// Close drops all clients and their idle connections.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.recent.Len() > 0 {
		p.drop(p.recent.Back())
	}
}

func (p *Pool) drop(e *list.Element) {
	old := p.recent.Remove(e).(pooled)
	delete(p.clients, old.dir)
	old.client.Close()
}
