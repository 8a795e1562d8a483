// What the modules need of a browser, for tests without one.
globalThis.document ||= { documentElement: { dataset: {} } };
globalThis.navigator ||= { language: 'en' };
globalThis.location ||= { origin: 'http://localhost', pathname: '/ui/', search: '' };
globalThis.addEventListener ||= () => {};
