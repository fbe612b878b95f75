// What AWS's own validator says of messages, one a line in base64 on stdin, answered one a line.
// The first line is JSON: certificates by URL, and under "*" what every other host would answer.
'use strict';

const { EventEmitter } = require('events');
const https = require('https');
const MessageValidator = require('sns-validator');

const [first, ...lines] = require('fs').readFileSync(0, 'utf8').trimEnd().split('\n');
const certificates = JSON.parse(first);

https.get = (url, answer) => {
  const response = Object.assign(new EventEmitter(), { statusCode: 200 });
  setImmediate(() => {
    answer(response);
    response.emit('data', Buffer.from(certificates[url] ?? certificates['*']));
    response.emit('end');
  });
  return new EventEmitter();
};

const verdict = (line) => new Promise((resolve) => {
  const body = Buffer.from(line, 'base64').toString('utf8');
  try {
    new MessageValidator().validate(body, (error) => resolve(error ? 'refused' : 'accepted'));
  } catch {
    resolve('refused');
  }
});

Promise.all(lines.map(verdict)).then((verdicts) => console.log(verdicts.join('\n')));
