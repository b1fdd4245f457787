// Express 4 beside 5, by an alias; what is used here has the types of 5.
declare module 'express4' {
  import express from 'express';
  export default express;
}
